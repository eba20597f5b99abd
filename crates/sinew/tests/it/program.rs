//! The program as a user runs it.

use crate::support::{fails, ok, sinew};

#[test]
fn data_fit_measure_are_the_same_to_the_byte_with_one_thread_and_two() {
    let folder = tempfile::tempdir().unwrap();
    let run = |threads: usize| {
        ok(folder.path(), &format!("data tube-bend -o a.npz --threads {threads}"));
        ok(folder.path(), &format!("fit a.npz --method ssd -o a.sinew --threads {threads}"));
        ok(folder.path(), &format!("measure a.sinew a.npz --frames test --json m.json --threads {threads}"));
        ["a.npz", "a.sinew", "m.json"].map(|file| std::fs::read(folder.path().join(file)).unwrap())
    };
    let one = run(1);
    assert!(one == run(2), "a file depends on the number of threads");
    let measures: serde_json::Value = serde_json::from_slice(&one[2]).unwrap();
    for key in ["method", "frames", "ee_percent", "e_rms", "max_percent", "p95_percent", "normal_mean_degrees"] {
        assert!(!measures[key].is_null(), "measure's JSON has no {key}");
    }
    assert_eq!(measures["method"], "ssd");
    assert_eq!(measures["frames"], 39);
}

#[test]
fn a_missed_threshold_is_exit_code_one() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "data bar -o bar.npz");
    ok(folder.path(), "fit bar.npz --method rigid -o bar.sinew");
    assert_eq!(sinew(folder.path(), "measure bar.sinew bar.npz --at-most-ee 1").status.code(), Some(1));
    assert_eq!(sinew(folder.path(), "measure bar.sinew bar.npz --at-most-ee 500").status.code(), Some(0));
}

#[test]
fn a_reader_that_stops_early_loses_no_file_and_no_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "data bar -o bar.npz");
    // The read ends of the pipes are closed before the program writes its first line.
    let unread = |words: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sinew"));
        command.current_dir(folder.path()).args(words.split(' '));
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop((child.stdout.take(), child.stderr.take()));
        child.wait().unwrap().code()
    };
    assert_eq!(unread("fit bar.npz --method ssd --train 0 -o bar.sinew --json fit.json"), Some(0));
    assert_eq!(unread("measure bar.sinew bar.npz --at-most-ee 1 --json m.json"), Some(1));
    assert_eq!(unread("fit missing.npz -o bar.sinew"), Some(2));
    for file in ["bar.sinew", "fit.json", "m.json"] {
        assert!(folder.path().join(file).exists(), "{file} was not written");
    }
}

#[test]
fn errors_name_the_file_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "data bar -o bar.npz");
    ok(folder.path(), "data tube-bend -o tube.npz");
    ok(folder.path(), "fit bar.npz --method ssd -o bar.sinew");
    ok(folder.path(), "fit bar.npz --method dqs -o dqs.sinew");
    std::fs::write(folder.path().join("noise.npz"), b"this is no zip").unwrap();
    std::fs::write(folder.path().join("noise.sinew"), b"this is no model").unwrap();
    for (words, message) in [
        ("fit missing.npz -o x.sinew", "missing.npz"),
        ("fit noise.npz -o x.sinew", "noise.npz"),
        ("fit bar.npz --train 0..9999 -o x.sinew", "9998"),
        ("fit bar.npz --method ssd --influences 0 -o x.sinew", "influences is 0; it must be 1 to 16"),
        ("measure noise.sinew bar.npz", "noise.sinew"),
        ("suggest bar.npz --count 0", "--count must be at least 1"),
        ("compare bar.npz --methods ssd --train 0 --leave-one-out -o report", "no method could be fitted"),
        ("bounds dqs.sinew", "dqs.sinew: bounds are known for linear blend"),
        ("measure bar.sinew tube.npz", "the model was made for"),
        ("measure bar.sinew bar.npz --frames nonsense", "nonsense"),
        ("fit bar.npz -o no/such/folder/x.sinew", "there is no folder no/such/folder"),
        ("fit bar.npz -o .", "is a folder"),
        ("fit bar.npz -o bar.npz", "what is written there is a .sinew file"),
        ("fit bar.npz -o x.sinew --json bar.npz", "what is written there is a .json file"),
        ("export bar.sinew -o bar.fbx", "what is written there is a .glb file"),
        ("subdivide bar.sinew -o fine.glb", "what is written there is a .sinew file"),
        ("data bar -o bar.sinew", "what is written there is a .npz file"),
        ("fit bar.npz -o clip.mp4", "what is written there is a .sinew file"),
        ("render bar.sinew --animation bar.npz -o clip.mov", "clip.mov: sinew writes an .mp4"),
    ] {
        let error = fails(folder.path(), words);
        assert!(error.contains(message), "sinew {words}: `{error}` does not say `{message}`");
    }
    assert!(!folder.path().join("x.sinew").exists());
}

#[test]
fn every_command_has_help_with_an_example() {
    let folder = tempfile::tempdir().unwrap();
    let help = ok(folder.path(), "--help");
    // A command's line is indented by two; a summary that wraps goes on further in.
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    let commands: Vec<&str> = names.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.len() > 4, "{help}");
    for command in commands.into_iter().filter(|&command| command != "help") {
        let help = ok(folder.path(), &format!("{command} --help"));
        assert!(help.contains(&format!("sinew {command}")), "{command}");
        assert!(help.contains("Example"), "`sinew {command} --help` shows no example");
    }
}
