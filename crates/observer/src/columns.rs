//! Parses tables of the kernel: a line of column names, then a line of hexadecimal numbers per CPU.
//! Columns are found by name because their order differs between kernels.

/// Parsed table.
#[derive(Debug)]
pub(crate) struct Columns<'a> {
    names: Vec<&'a str>,
    lines: Vec<Vec<Option<u64>>>,
}

/// Parses a table. The number of lines depends on the kernel's version: it lists all possible CPUs,
/// or only online CPUs.
pub(crate) fn parse_columns(text: &str) -> Columns<'_> {
    let mut lines = text.lines();
    let names = lines.next().unwrap_or_default().split_ascii_whitespace().collect();
    let number = |word: &str| u64::from_str_radix(word, 16).ok();
    let numbers = |line: &str| line.split_ascii_whitespace().map(number).collect();
    Columns { names, lines: lines.map(numbers).collect() }
}

impl Columns<'_> {
    /// Returns the sum of a column over all CPUs. `None`: no line has this column.
    pub(crate) fn sum(&self, name: &str) -> Option<u64> {
        self.column(name)?.reduce(|a, b| a + b)
    }

    /// Returns the highest number of a column. `None`: no line has this column.
    pub(crate) fn max(&self, name: &str) -> Option<u64> {
        self.column(name)?.max()
    }

    fn column(&self, name: &str) -> Option<impl Iterator<Item = u64>> {
        let index = self.names.iter().position(|n| *n == name)?;
        Some(self.lines.iter().filter_map(move |line| *line.get(index)?))
    }
}
