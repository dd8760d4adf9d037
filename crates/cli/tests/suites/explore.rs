//! `farslot explore`, as a user meets it.

use crate::common::{error_of, farslot, one_object};

/// One token that goes to one of two places and back: three markings.
const CHOICE: &str = r#"<pnml><net id="choice" type="http://www.pnml.org/version-2009/grammar/ptnet"><page id="page">
<place id="start"><initialMarking><text>1</text></initialMarking></place><place id="left"/><place id="right"/>
<transition id="to_left"/><arc id="a1" source="start" target="to_left"/><arc id="a2" source="to_left" target="left"/>
<transition id="to_right"/><arc id="a3" source="start" target="to_right"/><arc id="a4" source="to_right" target="right"/>
<transition id="back"/><arc id="a5" source="left" target="back"/><arc id="a6" source="back" target="start"/>
</page></net></pnml>
"#;

#[test]
fn a_net_is_explored_both_ways() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("choice.pnml");
    let path = path.to_str().unwrap();
    std::fs::write(path, CHOICE).unwrap();
    for (symbolic, depth) in [
        (&[][..], serde_json::json!(1)),
        (&["--symbolic"], serde_json::Value::Null),
    ] {
        let args = [&["explore", path, "--json"], symbolic].concat();
        let output = farslot(args).output().unwrap();
        assert!(output.status.success(), "{}", error_of(&output));
        let found = one_object(&output);
        assert_eq!(found["model"], "choice");
        assert_eq!(
            [&found["states"], &found["transitions"], &found["deadlocks"]],
            [3, 3, 1]
        );
        assert_eq!(
            [
                &found["max_token_in_place"],
                &found["max_token_per_marking"]
            ],
            [1, 1]
        );
        assert_eq!(found["depth"], depth);
        assert!(found["seconds"].is_f64() && found["bytes_per_state"].is_f64());
    }
    let output = farslot(["explore", path, "--invariant", "left + right = 0"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.contains("violated after 1 steps:\n  initially: start\n  to_"),
        "{said}"
    );
}

#[test]
fn models_by_name_and_errors_are_told() {
    let output = farslot(["explore", "2pc:3", "--json"]).output().unwrap();
    assert_eq!(one_object(&output)["states"], 288);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bad.pnml");
    std::fs::write(
        &path,
        CHOICE.replace("target=\"left\"", "target=\"nowhere\""),
    )
    .unwrap();
    for (args, code, said) in [
        (
            ["explore", path.to_str().unwrap()],
            1,
            "line 3: an arc's target names \"nowhere\"",
        ),
        (
            ["explore", "missing.pnml"],
            1,
            "missing.pnml: line 1: cannot be read",
        ),
        (
            ["explore", "2pc:0"],
            2,
            "resource managers is 0: it must be from 1 to 1000",
        ),
        (["explore", "4pc:3"], 2, "no model is called \"4pc:3\""),
    ] {
        let output = farslot(args).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert!(
            error_of(&output).contains(said),
            "{args:?}: {}",
            error_of(&output)
        );
    }
}
