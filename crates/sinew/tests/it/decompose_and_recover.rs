//! `sinew decompose` and `sinew recover` as a user runs them, on built-in data and on the horse.

use crate::support::{json, ok, shared_path, sinew};

#[test]
fn files_come_out_the_same_with_one_thread_and_two_and_hold_what_they_say() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "data tube-bend -o tube.npz");
    let run = |threads: usize| {
        ok(folder.path(), &format!("decompose tube.npz --bones 4 -o d.npz --threads {threads}"));
        ok(folder.path(), &format!("decompose tube.npz --bones 4 -o d.glb --threads {threads}"));
        ok(folder.path(), &format!("recover tube.npz -o r.npz --picture r.png --threads {threads}"));
        ["d.npz", "d.glb", "r.npz", "r.png"].map(|file| std::fs::read(folder.path().join(file)).unwrap())
    };
    assert!(run(1) == run(2), "a file depends on the number of threads");
    // What was written is read again.
    ok(folder.path(), "decompose d.npz --weights-only -o w.npz --json w.json");
    ok(folder.path(), "decompose tube.npz --bones 4 -o d.npz --json d.json");
    let (weights, both) = (json(folder.path(), "w.json"), json(folder.path(), "d.json"));
    // 10 %: bones and weights found together, against weights found alone for the same bones, without their history.
    assert!(weights["e_rms"].as_f64().unwrap() < 1.1 * both["e_rms"].as_f64().unwrap() + 0.01);
    for key in ["bones", "e_rms", "cpu_seconds"] {
        assert!(!both[key].is_null(), "decompose's JSON has no {key}");
    }
    ok(folder.path(), "decompose d.npz --keep-bones --bones 6 -o h.npz");
    ok(folder.path(), "decompose d.npz --transforms-only -o t.npz");
}

#[test]
fn decomposition_can_start_from_a_recovery() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "data arm -o arm.npz");
    let error = |init: &str| {
        ok(folder.path(), &format!("decompose arm.npz --bones 6 --init {init} -o d.npz --json d.json"));
        let report = json(folder.path(), "d.json");
        assert_eq!(report["bones"], 6);
        report["e_rms"].as_f64().unwrap()
    };
    let (growth, recovery) = (error("growth"), error("recovery"));
    // Both end in a local optimum; a third more would mean that the start was no use.
    assert!(recovery < 1.33 * growth, "{recovery} from a recovery, {growth} grown");
    let output = sinew(folder.path(), "decompose arm.npz --bones 6 --keep-bones --init recovery -o d.npz");
    assert!(String::from_utf8_lossy(&output.stderr).contains("--init recovery"));
}

#[test]
fn what_recover_and_decompose_write_has_no_fault() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "data tube-bend -o tube.npz");
    ok(folder.path(), "decompose tube.npz --bones 3 -o d.glb");
    ok(folder.path(), "recover tube.npz --bones 2 --scale -o r.glb");
    for file in ["d.glb", "r.glb"] {
        let output = sinew(folder.path(), &format!("inspect {file}"));
        let words = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && !words.contains("fault"), "{words}");
        assert!(words.contains("moves by its skin alone"), "{words}");
    }
}

#[test]
fn refusals_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "data bar -o bar.npz");
    for (words, expected) in [
        ("decompose bar.npz --bones 3 -o out.txt", ".npz or .glb"),
        ("decompose bar.npz --bones 3 --affine -o out.glb", "shear"),
        ("decompose bar.npz --transforms-only -o out.npz", "influences"),
        ("decompose bar.npz --bones 0 -o out.npz", "bones is 0"),
        ("recover bar.npz --rest 999 -o out.npz", "999"),
        ("recover bar.npz --guide none.json -o out.npz", "none.json"),
    ] {
        let output = sinew(folder.path(), words);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "sinew {words}: {error}");
        assert!(error.contains(expected) && !error.contains("panicked"), "sinew {words}: {error}");
        assert!(!folder.path().join("out.npz").exists());
    }
}

/// Le and Deng's affine solver leaves 5.65 and 2.80 with 10 and 20 bones on this gallop, Dem Bones (rigid) 11.74 and 4.78.
#[test]
fn the_gallop_is_drawn_better_than_by_its_peers() {
    let Some(horse) = shared_path("horse.npz") else { return };
    let folder = tempfile::tempdir().unwrap();
    let horse = horse.display();
    for (bones, kind, at_most) in [(10, "", 10.5), (20, "", 4.2), (10, " --affine", 5.6), (20, " --affine", 2.8)] {
        let words = format!("decompose {horse} --frames test --bones {bones}{kind} -o g.npz --json g.json");
        ok(folder.path(), &words);
        let report = json(folder.path(), "g.json");
        assert!(report["e_rms"].as_f64().unwrap() <= at_most, "{words}: {report}");
        assert_eq!(report["bones"], bones);
    }
}

/// Ten still poses and a gallop far from all of them (Merry, Marais and Gain 2006, §6.4): each method improves on the one
/// before it.
#[test]
fn on_the_recovered_horse_the_gallop_orders_the_methods() {
    let Some(horse) = shared_path("horse.npz") else { return };
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), &format!("recover {} --cores-only -o horse.npz", horse.display()));
    let error = |method: &str| {
        ok(folder.path(), &format!("fit horse.npz --method {method} -o m.sinew"));
        ok(folder.path(), "measure m.sinew horse.npz --frames test --json m.json");
        json(folder.path(), "m.json")["ee_percent"].as_f64().unwrap()
    };
    let [ssd, space, regression, corrected] = ["ssd", "as", "rr", "rr-cv"].map(error);
    assert!(space < ssd && regression < space && corrected < space, "{ssd} {space} {regression} {corrected}");
}
