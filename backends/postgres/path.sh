# Debian keeps the programs of the server out of PATH, in a folder for each version: the latest
# counts.
for folder in $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort --version-sort); do
    PATH=$folder:$PATH
done
