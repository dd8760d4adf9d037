//! The models for Spin: one process of guarded steps on global bytes, so that its states are the bytes' values.

use super::Subject;
use std::fmt::Write;

/// A model in Promela.
pub(super) fn text(subject: Subject) -> String {
    let (declared, steps) = match subject {
        Subject::Philosophers(count) => philosophers(count),
        Subject::Peterson(count) => peterson(count),
        Subject::TwoPhase(count) => two_phase(count),
    };
    let mut text = format!("{declared}\nactive proctype all() {{\nend: do\n");
    for (guard, effect) in steps {
        let _ = writeln!(text, ":: d_step {{ {guard} -> {effect} }}");
    }
    text.push_str("od }\n");
    text
}

/// Declarations, and the steps: a guard and what is assigned.
type Parts = (String, Vec<(String, String)>);

fn philosophers(count: usize) -> Parts {
    let mut steps = Vec::new();
    for me in 0..count {
        let (left, right) = ((me + count - 1) % count, (me + 1) % count);
        steps.push((format!("s[{me}]==0 && s[{left}]!=2"), format!("s[{me}]=1")));
        steps.push((format!("s[{me}]==1 && s[{right}]==0"), format!("s[{me}]=2")));
        steps.push((format!("s[{me}]==2"), format!("s[{me}]=0")));
    }
    (format!("byte s[{count}];"), steps)
}

fn peterson(count: usize) -> Parts {
    let mut steps = Vec::new();
    for me in 0..count {
        steps.push((format!("s[{me}]==0"), format!("s[{me}]=1; l[{me}]=1")));
        steps.push((
            format!("s[{me}]==1"),
            format!("s[{me}]=2; last[l[{me}]-1]={me}"),
        ));
        let others = (0..count).filter(|other| *other != me);
        let lower: Vec<String> = others.map(|other| format!("l[{other}]<l[{me}]")).collect();
        let go = format!(
            "s[{me}]==2 && (({}) || last[l[{me}]-1]!={me})",
            lower.join(" && ")
        );
        let top = count - 1;
        steps.push((format!("{go} && l[{me}]=={top}"), format!("s[{me}]=3")));
        steps.push((
            format!("{go} && l[{me}]<{top}"),
            format!("s[{me}]=1; l[{me}]=l[{me}]+1"),
        ));
        steps.push((format!("s[{me}]==3"), format!("s[{me}]=0; l[{me}]=0")));
    }
    let levels = count - 1;
    (
        format!("byte s[{count}]; byte l[{count}]; byte last[{levels}];"),
        steps,
    )
}

fn two_phase(count: usize) -> Parts {
    let known: Vec<String> = (0..count).map(|me| format!("known[{me}]==1")).collect();
    let mut steps = vec![
        (format!("d==0 && {}", known.join(" && ")), "d=2".to_owned()),
        ("d==0".to_owned(), "d=3".to_owned()),
    ];
    for me in 0..count {
        steps.push((format!("d==0 && sent[{me}]==1"), format!("known[{me}]=1")));
        steps.push((format!("s[{me}]==0"), format!("s[{me}]=1; sent[{me}]=1")));
        steps.push((format!("s[{me}]==0"), format!("s[{me}]=3")));
        steps.push(("d!=0".to_owned(), format!("s[{me}]=d")));
    }
    (
        format!("byte s[{count}]; bit known[{count}]; bit sent[{count}]; byte d;"),
        steps,
    )
}
