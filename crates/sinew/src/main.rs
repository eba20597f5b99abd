//! The `sinew` program. Flags are parsed literally ([`cli`]), resolved in each command's file ([`commands`]), and end in
//! library calls. Tables go to stdout, progress and warnings to stderr; exit 0 done, 1 a stated threshold missed, 2 an error.

/// A line to stderr. Unlike the standard one it does not panic when nobody reads any more (`sinew fit … 2>&1 | head`).
macro_rules! eprintln {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}

mod animation;
mod character;
mod cli;
mod commands;
mod compare;
mod cpu;
mod h264;
mod interrupt;
mod load;
mod mp4;
mod output;
mod parts_picture;
mod predict;
mod progress;
mod skinned;
mod webp;

use std::process::ExitCode;

use clap::Parser;

/// How a command ended, if not with an error.
pub enum Outcome {
    /// It did what was asked.
    Done,
    /// It ran, but a threshold that the user stated was missed.
    ThresholdMissed,
}

fn main() -> ExitCode {
    quieten_readers();
    let cli = cli::Cli::parse();
    match cli.run() {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::ThresholdMissed) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {}", told_once(&error));
            ExitCode::from(2)
        }
    }
}

/// A malformed file may end the thread that reads it, which is an error like any other: its panic is not shown.
fn quieten_readers() {
    let shown = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().name() != Some(sinew_io::READER_THREAD) {
            shown(info);
        }
    }));
}

/// An error and its causes, without a cause that the error before it has told already.
pub(crate) fn told_once(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        match text.as_str() {
            "" => text = cause,
            told if told.ends_with(&cause) => {}
            _ => text = format!("{text}: {cause}"),
        }
    }
    text
}
