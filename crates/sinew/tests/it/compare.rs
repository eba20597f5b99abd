//! `compare`, `study` and `suggest` as a user runs them.

use std::path::Path;

use crate::program::{fails, ok};

fn json(folder: &Path, file: &str) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(folder.join(file)).unwrap()).unwrap()
}

#[test]
fn the_report_has_every_method_and_stands_alone() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "data bar -o bar.npz");
    let table = ok(folder.path(), "compare bar.npz -o report");
    let results = json(folder.path(), "report/results.json");
    let methods = results["methods"].as_array().unwrap();
    for info in sinew_fit::METHODS {
        let entry = methods.iter().find(|m| m["method"] == info.name).unwrap_or_else(|| panic!("no {}", info.name));
        assert_eq!(entry["status"], "ok", "{}: {}", info.name, entry["reason"]);
        for key in ["bytes", "flops", "microseconds", "fit_seconds"] {
            assert!(entry[key].as_f64().is_some(), "{} has no {key}", info.name);
        }
        for part in ["train", "test"] {
            for key in
                ["ee_percent", "e_rms", "max_percent", "p95_percent", "normal_mean_degrees", "sted", "kg_percent"]
            {
                assert!(entry[part][key].as_f64().is_some(), "{} has no {part}.{key}", info.name);
            }
        }
        assert!(table.contains(info.name), "{table}");
    }
    let page = std::fs::read_to_string(folder.path().join("report/index.html")).unwrap();
    assert!(page.len() < 5_000_000, "the page is {} bytes", page.len());
    for address in ["src=\"http", "href=\"http", "url(http", "@import"] {
        assert!(!page.contains(address), "the page needs the network: {address}");
    }
    let csv = std::fs::read_to_string(folder.path().join("report/results.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + methods.len());
    let columns = csv.lines().next().unwrap().matches(',').count();
    assert!(csv.lines().all(|line| line.matches(',').count() == columns), "{csv}");
}

#[test]
fn a_method_that_fails_is_shown_as_failed_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "data bar -o bar.npz");
    // One training pose can be fitted but not left out.
    ok(folder.path(), "compare bar.npz -o report --methods rigid,ssd --train 5 --leave-one-out");
    let results = json(folder.path(), "report/results.json");
    for entry in results["methods"].as_array().unwrap() {
        assert_eq!(entry["status"], "failed");
        assert!(entry["reason"].as_str().unwrap().contains("at least two training poses"));
    }
    let page = std::fs::read_to_string(folder.path().join("report/index.html")).unwrap();
    assert!(page.contains("failed:"));
    assert!(fails(folder.path(), "compare bar.npz -o report --methods nonsense").contains("nonsense"));
}

#[test]
fn leave_one_out_measures_each_training_pose_unseen() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "data bar -o bar.npz");
    ok(folder.path(), "compare bar.npz -o report --methods ssd,mwe --leave-one-out");
    let results = json(folder.path(), "report/results.json");
    assert_eq!(results["test_frames"], results["train_frames"]);
    // Three poses are few: what knows a pose by heart does not know it when it is left out.
    let mwe = &results["methods"][1];
    let error = |part: &str| mwe[part]["ee_percent"].as_f64().unwrap();
    assert!(error("test") > 2.0 * error("train"), "{} and {}", error("test"), error("train"));
}

#[test]
fn a_study_is_written_and_evaluated() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "data bar -o bar.npz");
    ok(folder.path(), "compare bar.npz -o report --methods ssd,dqs --study --budget bytes=1M");
    let key = json(folder.path(), "report/study/key.json");
    let clips: Vec<&String> = key.as_object().unwrap().keys().collect();
    let page = std::fs::read_to_string(folder.path().join("report/study/index.html")).unwrap();
    let mut ratings = String::from("rater,clip,rating\n");
    for clip in &clips {
        let bytes = std::fs::read(folder.path().join(format!("report/study/{clip}.png"))).unwrap();
        assert!(bytes.windows(4).any(|chunk| chunk == b"acTL"), "the clip is not animated");
        assert!(page.contains(clip.as_str()));
        let base = if key[clip.as_str()] == "dqs" { 8.0 } else { 4.0 };
        for rater in 0..4 {
            ratings.push_str(&format!("{rater},{clip},{}\n", base + 0.5 * f64::from(rater % 2)));
        }
    }
    assert!(!page.contains("dqs"), "the page gives the methods away");
    std::fs::write(folder.path().join("report/study/ratings.csv"), ratings).unwrap();
    let table = ok(folder.path(), "study report/study/ratings.csv --json study.json");
    assert!(table.contains("differ"), "{table}");
    assert_eq!(json(folder.path(), "study.json")["methods"]["dqs"]["mean"], 8.25);
    std::fs::write(folder.path().join("report/study/wrong.csv"), "rater,clip,rating\n1,clip_a,11\n").unwrap();
    assert!(fails(folder.path(), "study report/study/wrong.csv").contains("line 2"));
}

#[test]
fn suggestions_name_the_missing_end_of_a_motion() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "data tube-bend -o tube.npz");
    let words = ok(folder.path(), "suggest tube.npz --train 0..30 --json suggest.json");
    assert!(words.contains("upper bent 90°, past all training poses"), "{words}");
    assert_eq!(json(folder.path(), "suggest.json")["suggestions"][0]["frame"], 78);
}
