//! The syntax of a script, reduced to the parts that its effects depend on. [`parse`](super::parse) makes it.

/// A statement of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Statement {
    Simple(Simple),
    Pipeline(Vec<Statement>),
    /// Lists and branches. Any of the statements can run.
    Group(Vec<Statement>),
    /// Statements that can run again after later ones.
    Loop(Vec<Statement>),
    Subshell(Vec<Statement>),
    /// A loop over words; without words, over the parameters of the script.
    For {
        variable: String,
        values: Option<Vec<Word>>,
        body: Vec<Statement>,
    },
    Function {
        name: String,
        body: Box<Statement>,
    },
    /// Words that are expanded and not run: arithmetic, patterns.
    Expand(Vec<Word>),
    Redirected(Box<Statement>, Vec<Redirect>),
}

/// Assignments, then a program and its words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Simple {
    pub(crate) assignments: Vec<Assignment>,
    pub(crate) words: Vec<Word>,
    pub(crate) redirects: Vec<Redirect>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) name: String,
    /// One value, or the elements of an array.
    pub(crate) values: Vec<Word>,
    pub(crate) appends: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Redirect {
    Read(Word),
    Write(Word),
    /// A here-document or here-string: the text of the standard input.
    Text(Word),
}

/// A word before its expansion.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Word(pub(crate) Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Text in which wildcards, braces and `~` have a meaning.
    Unquoted(String),
    /// Literal text.
    Literal(String),
    /// Pieces in double quotes: their values are not split into words.
    Quoted(Vec<Piece>),
    Parameter(Parameter),
    CommandSubstitution {
        script: Vec<Statement>,
        /// The text of the script.
        source: String,
    },
    ProcessSubstitution(Vec<Statement>),
    /// The words of an arithmetic expression. Its value is a number.
    Arithmetic(Vec<Word>),
}

/// `$name` or `${name…}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) operation: Operation,
    /// The words of the operation and of an index.
    pub(crate) words: Vec<Word>,
}

/// What an expansion does with the value of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// `${name}`.
    Value,
    /// `$name`. Text that comes from braces after it would belong to the name.
    Bare,
    /// `${name[@]}`: all elements of an array, as words of their own.
    Elements,
    /// `:-`, `-`, `:=`, `=`: another word if the variable has no value.
    Default,
    /// `:+`, `+`: another word if the variable has a value.
    Alternative,
    /// `:?`, `?`: an error if the variable has no value.
    Required,
    /// A number.
    Length,
    /// `${file##*/}`: the name of a file.
    FileName,
    /// `${file%.txt}`: the value without an ending.
    WithoutEnding,
    /// Changes the value in another way.
    Change,
    /// `${!name}`, `${name@P}`: the value is the name of another variable, or contains commands.
    Indirect,
}
