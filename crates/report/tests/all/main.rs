//! All tests of this crate through its public interface, in one program: it is linked once.

mod answer;
mod answer_repetitions;
mod answer_skew;
mod page;
mod searches;
mod text;
mod viewer;
