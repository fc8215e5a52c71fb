//! Files of the kernel with a line of names, and a line of hexadecimal numbers per CPU.

/// Numbers of such a file.
#[derive(Debug)]
pub(crate) struct Columns<'a> {
    names: Vec<&'a str>,
    lines: Vec<Vec<Option<u64>>>,
}

/// Reads hexadecimal numbers below their names. A machine may have more CPUs than the file has
/// lines: it has one for each CPU that is possible, or online, whatever the kernel's version says.
pub(crate) fn hexadecimal(text: &str) -> Columns<'_> {
    let mut lines = text.lines();
    let names = lines.next().unwrap_or_default().split_ascii_whitespace().collect();
    let number = |word: &str| u64::from_str_radix(word, 16).ok();
    let numbers = |line: &str| line.split_ascii_whitespace().map(number).collect();
    Columns { names, lines: lines.map(numbers).collect() }
}

impl Columns<'_> {
    /// The sum of a column. `None`: no line has it.
    pub(crate) fn sum(&self, name: &str) -> Option<u64> {
        self.column(name)?.reduce(|a, b| a + b)
    }

    /// The highest number of a column. `None`: no line has it.
    pub(crate) fn max_number(&self, name: &str) -> Option<u64> {
        self.column(name)?.max()
    }

    fn column(&self, name: &str) -> Option<impl Iterator<Item = u64>> {
        let place = self.names.iter().position(|n| *n == name)?;
        Some(self.lines.iter().filter_map(move |line| *line.get(place)?))
    }
}
