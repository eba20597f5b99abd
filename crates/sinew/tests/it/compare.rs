//! `compare`, `study` and `suggest` as a user runs them.

use crate::support::{fails, json, ok};

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
    for entry in methods {
        // Proxy bones with the best transforms are at least as good as with those that were predicted.
        let limit = entry["limit_ee_percent"].as_f64();
        assert_eq!(limit.is_some(), ["rr", "rr-cp"].contains(&entry["method"].as_str().unwrap()), "{entry}");
        assert!(limit.is_none_or(|limit| limit <= entry["test"]["ee_percent"].as_f64().unwrap()), "{entry}");
    }
    assert!(table.contains("limit") && table.contains("best possible transforms"), "{table}");
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
fn methods_that_fail_are_shown_as_failed() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "data bar -o bar.npz");
    // One training pose can be fitted but not left out.
    let error = fails(folder.path(), "compare bar.npz -o report --methods rigid,ssd --train 5 --leave-one-out");
    assert!(error.contains("no method could be fitted"), "{error}");
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
fn many_at_a_time_give_what_one_at_a_time_gives() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "data bar -o bar.npz");
    let errors = |jobs: usize| {
        ok(folder.path(), &format!("compare bar.npz -o report --methods mwe,rigid,ssd,as --jobs {jobs}"));
        let results = json(folder.path(), "report/results.json");
        let entry = |m: &serde_json::Value| (m["method"].clone(), m["train"].clone(), m["test"].clone());
        results["methods"].as_array().unwrap().iter().map(entry).collect::<Vec<_>>()
    };
    let one = errors(1);
    assert_eq!(one[0].0, "mwe", "the table is not in the order that was asked for");
    assert_eq!(one, errors(4));
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_what_is_finished() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "data arm -o arm.npz");
    // Leave-one-out makes rotational regression take long enough to be interrupted; the rigid binding is there at once.
    let mut child = Command::new(env!("CARGO_BIN_EXE_sinew"))
        .current_dir(folder.path())
        .args(["compare", "arm.npz", "-o", "report", "--methods", "rigid,rr", "--leave-one-out", "--jobs", "1"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = errors.find(|line| line.as_ref().unwrap().starts_with("rigid:")).unwrap().unwrap();
    assert!(first.contains("% EE"), "{first}");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let rest: Vec<String> = errors.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(2));
    assert!(rest.iter().any(|line| line.contains("interrupted; the report holds what was finished")), "{rest:?}");
    let results = json(folder.path(), "report/results.json");
    assert_eq!(results["interrupted"], true);
    assert_eq!(results["methods"][0]["status"], "ok");
    assert_eq!(results["methods"][1]["status"], "failed");
    assert!(results["methods"][1]["reason"].as_str().unwrap().contains("interrupted"));
    let page = std::fs::read_to_string(folder.path().join("report/index.html")).unwrap();
    assert!(page.contains("This run was interrupted"));
}

#[test]
fn sweeps_have_their_curves_and_the_surface() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "data bar -o bar.npz");
    ok(folder.path(), "compare bar.npz -o report --methods as,mwe,rr --sweep");
    let sweeps = json(folder.path(), "report/sweep.json");
    let sweeps = sweeps.as_array().unwrap();
    let names: Vec<&str> = sweeps.iter().map(|sweep| sweep["sweep"].as_str().unwrap()).collect();
    let expected = ["training poses", "λ or δ", "mwe scale factor and variance dropped", "proxy bones", "ridge λ"];
    assert_eq!(names, expected);
    for sweep in sweeps.iter().filter(|sweep| sweep["curves"].is_array()) {
        for curve in sweep["curves"].as_array().unwrap() {
            let points = curve["points"].as_array().unwrap();
            assert!(points.len() >= 2, "{curve}");
            let values: Vec<f64> = points.iter().map(|p| p["value"].as_f64().unwrap()).collect();
            assert!(values.is_sorted(), "{values:?}");
            assert!(points.iter().all(|p| p["test_ee_percent"].as_f64().unwrap() > 0.0), "{curve}");
        }
    }
    let surface = &sweeps[2];
    let rows = surface["test_ee_percent"].as_array().unwrap();
    assert_eq!(rows.len(), surface["variance_thresholds"].as_array().unwrap().len());
    assert!(rows.iter().all(|row| row.as_array().unwrap().len() == surface["scale_factors"].as_array().unwrap().len()));
    let page = std::fs::read_to_string(folder.path().join("report/index.html")).unwrap();
    assert!(page.contains("<h2>Sweeps</h2>"));
}

#[test]
fn a_budget_is_answered_in_words() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "data bar -o bar.npz");
    let base = "compare bar.npz -o report --methods rigid,ssd,rr";
    let ample = ok(folder.path(), &format!("{base} --budget bytes=100M,joints=1000"));
    let line = |text: &str| text.lines().find(|line| line.contains("budget")).unwrap().to_string();
    assert!(line(&ample).starts_with("Under this budget choose"), "{ample}");
    // The bar has few bones; any proxy bone is one too many for this limit.
    let results = json(folder.path(), "report/results.json");
    let tight = ok(folder.path(), &format!("{base} --budget joints={}", results["bones"]));
    assert!(line(&tight).contains("The next better, Rotational regression"), "{tight}");
    assert!(line(&tight).contains("joints where"), "{tight}");
    assert!(ok(folder.path(), &format!("{base} --budget bytes=1")).contains("No method fits this budget."));
    let page = std::fs::read_to_string(folder.path().join("report/index.html")).unwrap();
    assert!(page.contains("No method fits this budget."));
}

#[test]
fn measure_prints_and_writes_every_metric() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "data bar -o bar.npz");
    ok(folder.path(), "fit bar.npz --method rr -o bar.sinew");
    let table = ok(folder.path(), "measure bar.sinew bar.npz --json m.json");
    for name in ["EE", "E_RMS", "KG", "max", "p95", "surface", "Hausdorff", "normals", "volume", "STED", "limit"] {
        assert!(table.lines().any(|line| line.starts_with(name)), "{name}: {table}");
    }
    assert!(table.contains("half the rest diagonal"), "the normaliser of E_RMS is not said: {table}");
    let measures = json(folder.path(), "m.json");
    for key in [
        "method",
        "frames",
        "ee_percent",
        "e_rms",
        "e_rms_normaliser",
        "kg_percent",
        "surface_mean_percent",
        "hausdorff_percent",
        "normal_mean_degrees",
        "max_percent",
        "p95_percent",
        "volume_mean_percent",
        "sted",
        "spread_percent",
        "limit_ee_percent",
    ] {
        assert!(!measures[key].is_null(), "measure's JSON has no {key}");
    }
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
    assert!(words.contains("upper bent past"), "{words}");
    assert_eq!(json(folder.path(), "suggest.json")["suggestions"][0]["frame"], 78);
}

/// The rest pose alone, which rigid binding reproduces: there is no error to compare with, and yet a number and a model.
#[test]
fn the_rest_pose_alone_can_be_trained_on() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "data bar -o bar.npz");
    ok(folder.path(), "compare bar.npz -o report --methods as,rr --train 0");
    let results = json(folder.path(), "report/results.json");
    for entry in results["methods"].as_array().unwrap() {
        assert_eq!(entry["status"], "ok", "{entry}");
        assert!(entry["train"]["ee_percent"].as_f64().is_some(), "{entry}");
    }
    ok(folder.path(), "fit bar.npz --train 0 --method as -o as.sinew");
    ok(folder.path(), "measure as.sinew bar.npz --frames test");
}

#[test]
fn what_cannot_be_written_or_read_is_said_at_once() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "data bar -o bar.npz");
    let error = fails(folder.path(), "compare bar.npz -o bar.npz/report");
    assert!(error.contains("cannot make the folder") && !error.contains("% EE"), "{error}");
    assert!(fails(folder.path(), "compare bar.npz -o report --show 999").contains("999"));
    assert!(fails(folder.path(), "study nothing.csv").contains("nothing.csv"));
    assert!(fails(folder.path(), "suggest bar.npz --method nonsense").contains("rr-cv"));
}
