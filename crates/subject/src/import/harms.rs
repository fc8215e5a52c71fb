//! What Dockerfiles would do to the machine on which they are imported, and what no file could hold.

use super::tests::{CONFIG, imported};

/// The build, what is started, and what is left, of a Dockerfile.
fn of(docker: &str) -> (String, toml::Table, Vec<String>) {
    let files = [("benchmark_config.json", CONFIG), ("quick.dockerfile", docker)];
    let (toml, left) = imported(&files, None).unwrap_or_else(|why| panic!("{why}: {docker}"));
    let build = toml["build"]["command"].as_str().unwrap().to_string();
    (build, toml["start"].as_table().unwrap().clone(), left)
}

fn command(start: &toml::Table) -> Vec<&str> {
    start["command"].as_array().unwrap().iter().filter_map(toml::Value::as_str).collect()
}

#[test]
fn nothing_outside_of_the_root_is_touched() {
    for run in [
        "ls -d $DIR/*",
        "ls -d /etc/*",
        "cd $DIR && rm -rf tmp",
        "cd $NONE && rm -rf tmp",
        "cd && rm -rf tmp",
        "rm -rf $CARGO_HOME/registry",
        "rm -rf ${GOPATH}/pkg",
        "rm -rf ${HOME}/x",
        "rm -rf \"$HOME\"/x",
        "rm -rf ~/x",
        "rm -rf ../../../../victim",
        "rm -rf /app/../../victim",
        "rm -rf *",
        "cd .. && cd ../../.. && touch escaped",
        "make -C .. ../../x",
        "make -C../..",
        "tar -xzC/etc",
        "tar xzf a --to-command=sh",
        "cp -t/etc a",
        "cp a b:/etc/x",
        "cp .* /app",
        "ln -s ../.. l",
        "ln -s /app l && rm -rf l/../../x",
        "sed -i 's/a/touch x/e' a",
        "sed s/a/b/ a",
        "touch 'a b/../../../x'",
        "make >/etc/x",
        "make PREFIX=/usr",
        "make install",
        "cmake --install .",
        "cmake -E rm -rf x",
        "PATH=/app make",
        "X=1",
        "go install x@latest",
        "cargo install x",
        "node -e 'x'",
        "sh -c make",
        "./../own.sh",
        "./own.sh ../../x",
        "/usr/own.sh",
    ] {
        let (build, _, left) =
            of(&format!("FROM x\nARG DIR=/build\nWORKDIR /app\nRUN {run}\nRUN make after\n"));
        assert_eq!(
            build,
            "set -e\nmkdir -p {out}/root\nmkdir -p {out}/root/app\n(cd {out}/root/app && make after)\n",
            "{run}"
        );
        let told = format!("The Dockerfile's `RUN {run}` is not done: see whether it is needed.");
        assert_eq!(left.iter().filter(|line| **line == told).count(), 1, "{run}: {left:?}");
    }
}

#[test]
fn what_is_more_than_simple_commands_is_not_done() {
    for run in [
        "if [ -f x ]; then apt-get update; fi",
        "(apt-get update && apt-get install -y bar)",
        "for a in b; do make; done",
        "make $(nproc)",
        "make -j `nproc`",
        "make || true",
        "make | tee log",
        "make &",
        "curl -sL http://x/y | tar xz",
        "curl -O http://x/y && make",
        "wget http://x/y",
        "git clone http://x/y",
        "! make",
        "{ make; }",
    ] {
        let (build, _, left) = of(&format!("FROM x\nRUN {run}\nRUN make after\n"));
        assert_eq!(build, "set -e\nmkdir -p {out}/root\n(cd {out}/root && make after)\n", "{run}");
        assert!(
            left.iter().any(|line| line.contains(&format!("`RUN {run}` is not done"))),
            "{run}: {left:?}"
        );
    }
}

#[test]
fn package_managers_are_not_run() {
    for run in [
        "set -eux; apt-get update; apt-get install -y curl",
        "DEBIAN_FRONTEND=noninteractive apt-get install -yqq curl && rm -rf /var/lib/apt/lists/*",
        "sudo apt-get install -o A=b curl",
        "if true; then apt install curl; fi",
        "(apt-get update && apt-get install -y curl)",
        "apk add --no-cache curl",
    ] {
        let (build, _, left) = of(&format!("FROM x\nRUN {run}\n"));
        assert_eq!(build, "set -e\nmkdir -p {out}/root\n", "{run}");
        assert!(left.iter().any(|line| line.ends_with("must be on this machine: curl.")), "{run}: {left:?}");
    }
    for run in [
        "useradd tfb",
        "npm install -g pm2",
        "npm i -gf pm2",
        "npm install --location=global pm2",
        "pip install x",
        "python3 -m pip install x",
        "uv pip install --system x",
        "gem install x",
        "bundle install",
        "ldconfig",
        "sudo make",
    ] {
        let (build, _, left) = of(&format!("FROM x\nRUN {run}\n"));
        assert_eq!(build, "set -e\nmkdir -p {out}/root\n", "{run}");
        assert!(
            left.iter().any(|line| line.contains(&format!("`RUN {run}` is not done"))),
            "{run}: {left:?}"
        );
    }
}

#[test]
fn what_works_in_its_folder_is_done() {
    for (run, done) in [
        ("GOAMD64=v3 go build -ldflags=\"-s -w\" -o app .", "GOAMD64=v3 go build -ldflags='-s -w' -o app ."),
        ("RUSTFLAGS=\"-C target-cpu=native\" cargo check", "RUSTFLAGS='-C target-cpu=native' cargo check"),
        ("cd src && make -j build", "cd {out}/root/app/src && make -j build"),
        ("cd src && cd .. && rm -rf tmp", "cd {out}/root/app/src && cd {out}/root/app && rm -rf tmp"),
        ("cd $DIR && cp -R *.so ${DIR}/lib/", "cd {out}/root/app && cp -R *.so {out}/root/app/lib/"),
        ("mkdir -p /opt/x && cp a /opt/x/", "mkdir -p {out}/root/opt/x && cp a {out}/root/opt/x/"),
        ("sed -i 's|/a|/b|g' conf", "sed -i 's|/a|/b|g' conf"),
        ("npm ci --registry https://x.org/y", "npm ci --registry https://x.org/y"),
        ("echo '{out} $X' > a", "echo '{{out}} $X' >a"),
        ("./setup.sh && make", "./setup.sh && make"),
        ("gcc -I/app/i -Isrc/include -O3 -o x ./x.c", "gcc -I{out}/root/app/i -Isrc/include -O3 -o x ./x.c"),
        ("[\"make\", \"a b\", \"$X\"]", "make 'a b' '$X'"),
        ("--mount=type=cache,target=/root/.m2 mvn -B package", "mvn -B package"),
        ("apt-get update -yqq && apt-get install -y x && make ./...", "make ./..."),
    ] {
        let (build, _, left) = of(&format!("FROM x\nARG DIR=/app\nWORKDIR $DIR\nRUN {run}\n"));
        assert!(build.ends_with(&format!("(cd {{out}}/root/app && {done})\n")), "{run}: {build} {left:?}");
        assert!(!left.iter().any(|line| line.contains("is not done")), "{run}: {left:?}");
    }
}

#[test]
fn copies_and_folders_stay_in_the_root() {
    let docker = "FROM x\nWORKDIR ../../../made\nCOPY ../../a ../../../b\nWORKDIR \"/app\"\nCOPY . .\nADD x.tar.gz /app\n\
                  ADD http://x/y /app\nCOPY .* /app/\nCOPY [\"a b\", \"c/\"]\nCOPY <<EOT /x\nRUN make\nEOT\nRUN <<EOT\nrm -rf x\nEOT\nWORKDIR ../..\n";
    let (build, start, left) = of(docker);
    assert_eq!(
        build,
        "set -e\nmkdir -p {out}/root\nmkdir -p {out}/root/made\n\
         if [ -d a ]; then mkdir -p {out}/root/b && cp -R a/. {out}/root/b/; else mkdir -p {out}/root && cp a {out}/root/b; fi\n\
         mkdir -p {out}/root/app\nmkdir -p {out}/root/app && cp -R ./. {out}/root/app/\n\
         if [ -d 'a b' ]; then mkdir -p {out}/root/app/c && cp -R 'a b'/. {out}/root/app/c/; else mkdir -p {out}/root/app/c && cp 'a b' {out}/root/app/c/; fi\n\
         mkdir -p {out}/root\n"
    );
    assert_eq!(start["cwd"].as_str(), Some("{out}/root"));
    for told in ["ADD x.tar.gz /app", "ADD http://x/y /app", "COPY .* /app/", "COPY <<EOT /x", "RUN <<EOT"] {
        let told = format!("`{told}` is not done");
        assert_eq!(left.iter().filter(|line| line.contains(&told)).count(), 1, "{told}: {left:?}");
    }
}

#[test]
fn variables_are_those_of_the_image_and_no_tools() {
    let docker = "FROM x\nENV A=1 A=2\nENV B $A-x\nENV C=`touch x`\nENV PATH=/x\nENV GOPATH=/go\nENV D=$NONE\nENV E=\"it's\"\n";
    let (build, start, left) = of(docker);
    assert!(build.contains("export A=2\nexport B=2-x\nexport C='`touch' \n".trim_end()), "{build}");
    assert!(build.contains("export E='it'\\''s'\n"), "{build}");
    let env = start["env"].as_table().unwrap();
    assert_eq!((env["A"].as_str(), env["B"].as_str()), (Some("2"), Some("2-x")));
    for told in ["ENV PATH=/x", "ENV GOPATH=/go", "ENV D=$NONE"] {
        assert!(left.iter().any(|line| line.contains(&format!("`{told}` is not done"))), "{told}: {left:?}");
        assert!(!build.contains("PATH=") && !env.contains_key("GOPATH"), "{build}");
    }
}

#[test]
fn commands_are_started_as_shells_have_them() {
    for (cmd, started) in [
        ("./x", "exec ./x"),
        ("exec ./x", "exec ./x"),
        ("A=1 ./x", "A=1 ./x"),
        ("a && b", "a && b"),
        ("./x {x} ${y} {{z}}", "exec ./x {{x}} ${y} {{{z}}}"),
    ] {
        let (_, start, _) = of(&format!("FROM x\nCMD {cmd}\n"));
        assert_eq!(command(&start), ["sh", "-c", started], "{cmd}");
    }
    let config = CONFIG.replacen("\"port\"", "\"docker_cmd\": \"/app/x {port} {a}\", \"port\"", 1);
    let files = [("benchmark_config.json", config.as_str()), ("quick.dockerfile", "FROM x\nWORKDIR /app\n")];
    let (toml, _) = imported(&files, None).unwrap();
    let start = toml["start"].as_table().unwrap();
    assert_eq!(command(start), ["sh", "-c", "exec {out}/root/app/x {{port}} {{a}}"]);
}

#[test]
fn a_dockerfile_is_one_of_its_folder() {
    for (name, words) in [("/etc/passwd", "absolute"), ("../x", "leaves its folder"), ("", "empty")] {
        let config = CONFIG.replacen("\"port\"", &format!("\"dockerfile\": {name:?}, \"port\""), 1);
        let files = [("benchmark_config.json", config.as_str()), (name, "FROM x\n")];
        assert!(imported(&files, None).unwrap_err().contains(words), "{name}");
    }
}

/// Texts that mean something to a shell, to TOML or to placeholders.
const ODD: &[&str] = &[
    "",
    "'",
    "''",
    "'''",
    "\"",
    "\"\"\"",
    "\\",
    "\\\\\n",
    "\r",
    "\t",
    "\u{7f}",
    "\u{1}",
    "\0",
    "\u{feff}",
    "{x}",
    "{{x}}",
    "${x}",
    "${{port}}",
    "$",
    "{port}",
    "{postgres.port}",
    "`",
    "$(",
    "é",
    "/",
    "..",
    "~",
    "*",
    "=",
    "a=",
    "=b",
    "[\"a\"]",
    "[\"\\u0000\", \"\\u0001\"]",
    "[]",
    "<<E",
    "8080",
    "--x",
    "a b",
    "&&",
    ";",
    "> ",
    "-",
    "--from=0",
    "#",
    "\n",
];

#[test]
fn any_text_gives_a_file_that_can_be_read() {
    let instructions = [
        "FROM",
        "ARG",
        "ENV",
        "WORKDIR",
        "COPY",
        "ADD",
        "RUN",
        "RUN echo",
        "CMD",
        "ENTRYPOINT",
        "X",
        "ENV a",
        "ENV a=",
    ];
    for instruction in instructions {
        for (i, first) in ODD.iter().enumerate() {
            for second in ODD.iter().cycle().skip(i).step_by(9).take(6) {
                let line = format!("{instruction} {first}{second}");
                of(&format!("FROM x\nWORKDIR /a\n{line}\nRUN echo \"{first}\" a{second}\n{line} {first}\n"));
            }
        }
    }
    for text in ODD {
        let escaped = text.chars().map(|c| format!("\\u{:04x}", c as u32)).collect::<String>();
        let config = CONFIG.replacen("Qu\\u200bick", &escaped, 1);
        imported(&[("benchmark_config.json", &config), ("quick.dockerfile", "FROM x\n")], None).unwrap();
    }
}
