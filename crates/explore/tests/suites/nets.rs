//! Nets from parameters, and how they are written as PNML.

use farslot_explore::net::{Arc, Net, NetPlace, Transition};
use std::fmt::Write;

/// A net from its initial tokens and, for each transition, the places that it takes from and puts
/// into. A place that is named twice counts twice.
pub fn net(
    name: &str,
    marking: &[(String, u32)],
    transitions: &[(String, Vec<String>, Vec<String>)],
) -> Net {
    let mut places: Vec<NetPlace> = Vec::new();
    let mut add = |id: &String, initial: u32| match places.iter_mut().find(|place| place.id == *id)
    {
        Some(place) => place.initial += initial,
        None => places.push(NetPlace {
            id: id.clone(),
            initial,
        }),
    };
    marking.iter().for_each(|(id, tokens)| add(id, *tokens));
    for (_, takes, puts) in transitions {
        takes.iter().chain(puts).for_each(|id| add(id, 0));
    }
    let arcs = |ids: &[String]| {
        let weight = |place: &NetPlace| ids.iter().filter(|id| **id == place.id).count() as u32;
        let arcs = places.iter().enumerate().map(|(place, named)| Arc {
            place,
            weight: weight(named),
        });
        arcs.filter(|arc| arc.weight > 0).collect::<Vec<_>>()
    };
    let transitions = transitions.iter().map(|(id, takes, puts)| Transition {
        id: id.clone(),
        takes: arcs(takes),
        puts: arcs(puts),
    });
    let transitions = transitions.collect();
    Net::new(name, places, transitions).unwrap()
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(String::from).collect()
}

/// From lines such as `t: a b > c`.
pub fn from_lines(name: &str, marking: &[(&str, u32)], lines: &str) -> Net {
    let transition = |line: &str| {
        let (id, arcs) = line.split_once(':').unwrap();
        let (takes, puts) = arcs.split_once('>').unwrap();
        (id.trim().to_owned(), words(takes), words(puts))
    };
    let lines = lines.lines().filter(|line| !line.trim().is_empty());
    let transitions: Vec<_> = lines.map(transition).collect();
    let marking: Vec<_> = marking
        .iter()
        .map(|(id, tokens)| ((*id).to_owned(), *tokens))
        .collect();
    net(name, &marking, &transitions)
}

/// Dining philosophers who take their forks in any order: 3^n markings.
pub fn philosophers(count: usize) -> Net {
    let mut marking = Vec::new();
    let mut lines = String::new();
    let thinking: Vec<_> = (0..count)
        .map(|i| (format!("think{i}"), format!("fork{i}")))
        .collect();
    for (think, fork) in &thinking {
        marking.extend([(think.as_str(), 1), (fork.as_str(), 1)]);
    }
    for i in 0..count {
        let j = (i + 1) % count;
        writeln!(lines, "a{i}: think{i} fork{i} > left{i}").unwrap();
        writeln!(lines, "b{i}: think{i} fork{j} > right{i}").unwrap();
        writeln!(lines, "c{i}: left{i} fork{j} > eat{i}").unwrap();
        writeln!(lines, "d{i}: right{i} fork{i} > eat{i}").unwrap();
        writeln!(lines, "e{i}: eat{i} > think{i} fork{i} fork{j}").unwrap();
    }
    from_lines("philosophers", &marking, &lines)
}

/// The Kanban system of four machines (Ciardo and Tilgner, ICASE report 96-35).
pub fn kanban(cards: u32) -> Net {
    let mut lines = String::from(
        "in: p4 > m4\n out: o1 > p1\n s1: o2 o3 p1 > p2 p3 m1\n s4: p2 p3 o4 > p4 m2 m3\n",
    );
    for i in 1..=4 {
        writeln!(
            lines,
            "redo{i}: m{i} > b{i}\n ok{i}: m{i} > o{i}\n back{i}: b{i} > m{i}"
        )
        .unwrap();
    }
    let marking = [("p1", cards), ("p2", cards), ("p3", cards), ("p4", cards)];
    from_lines("kanban", &marking, &lines)
}

/// The flexible manufacturing system with three machines of the first kind, one of the second and
/// two of the third (Ciardo and Trivedi, PNPM 1991).
pub fn manufacturing(parts: u32) -> Net {
    let lines = "
        tM1: M1 P1wM1 > P1M1 \n tM2: P2wM2 M2 > P2M2 \n tM3: P12wM3 M3 > P12M3
        tP1: P1 > P1wM1 \n tP12: P12 > P12wM3 \n tP12M3: P12M3 > P12s M3 \n tP12s: P12s > P1 P2
        tP1M1: P1M1 > P1d M1 \n tP1e: P1d > P1s \n tP1j: P1d > P1wP2 \n tP1s: P1s > P1
        tP2: P2 > P2wM2 \n tP2M2: P2M2 > P2d M2 \n tP2e: P2d > P2s \n tP2j: P2d > P2wP1 \n tP2s: P2s > P2
        tP3: P3 > P3M2 \n tP3M2: P3M2 M2 > M2 P3s \n tP3s: P3s > P3 \n tx: P2wP1 P1wP2 > P12";
    let marking = [
        ("P1", parts),
        ("P2", parts),
        ("P3", parts),
        ("M1", 3),
        ("M2", 1),
        ("M3", 2),
    ];
    from_lines("manufacturing", &marking, lines)
}

/// Stocks of 2^31 tokens each, of which some may be given away and come back.
pub fn stocks(count: usize) -> Net {
    let mut lines = String::new();
    let mut marking = Vec::new();
    for i in 0..count {
        marking.extend([(format!("stock{i}"), 1 << 31), (format!("left{i}"), 6)]);
        writeln!(lines, "give{i}: stock{i} left{i} > given{i}").unwrap();
        writeln!(lines, "back{i}: given{i} > stock{i} left{i}").unwrap();
    }
    let marking: Vec<_> = marking
        .iter()
        .map(|(id, tokens)| (id.as_str(), *tokens))
        .collect();
    from_lines("stocks", &marking, &lines)
}

/// Processes of which any two look at each other's flags: for pairs that a good order of places
/// must keep together.
pub fn flags(processes: usize) -> Net {
    let mut lines = String::new();
    let mut marking = Vec::new();
    for i in 0..processes {
        marking.extend([(format!("low{i}"), 1), (format!("idle{i}"), 1)]);
        writeln!(lines, "raise{i}: low{i} idle{i} > high{i} trying{i}").unwrap();
        writeln!(lines, "leave{i}: high{i} critical{i} > low{i} idle{i}").unwrap();
        let others = (0..processes).filter(|other| *other != i);
        let low: Vec<_> = others.clone().map(|other| format!("low{other}")).collect();
        let low = low.join(" ");
        writeln!(lines, "enter{i}: trying{i} {low} > critical{i} {low}").unwrap();
        for other in others {
            writeln!(
                lines,
                "yield{i}_{other}: high{i} trying{i} high{other} > low{i} idle{i} high{other}"
            )
            .unwrap();
        }
    }
    let marking: Vec<_> = marking
        .iter()
        .map(|(id, tokens)| (id.as_str(), *tokens))
        .collect();
    from_lines("flags", &marking, &lines)
}

/// A net as a PNML document.
pub fn to_pnml(net: &Net) -> String {
    let mut text = String::from(
        "<?xml version=\"1.0\"?>\n<pnml xmlns=\"http://www.pnml.org/version-2009/grammar/pnml\">\n",
    );
    let kind = "http://www.pnml.org/version-2009/grammar/ptnet";
    writeln!(
        text,
        "<net id=\"{}\" type=\"{kind}\">\n<page id=\"page\">",
        net.name()
    )
    .unwrap();
    for NetPlace { id, initial } in net.places() {
        let marking = format!("<initialMarking><text>{initial}</text></initialMarking>");
        let marking = if *initial == 0 { "" } else { &marking };
        writeln!(
            text,
            "<place id=\"{id}\"><name><text>{id}</text></name>{marking}</place>"
        )
        .unwrap();
    }
    let mut arcs = 0;
    for Transition { id, takes, puts } in net.transitions() {
        writeln!(text, "<transition id=\"{id}\"/>").unwrap();
        let takes = takes
            .iter()
            .map(|arc| (arc, &net.places()[arc.place].id, id));
        let puts = puts
            .iter()
            .map(|arc| (arc, id, &net.places()[arc.place].id));
        for (arc, source, target) in takes.chain(puts) {
            let weight = format!("<inscription><text>{}</text></inscription>", arc.weight);
            arcs += 1;
            writeln!(
                text,
                "<arc id=\"arc{arcs}\" source=\"{source}\" target=\"{target}\">{weight}</arc>"
            )
            .unwrap();
        }
    }
    text.push_str("</page>\n</net>\n</pnml>\n");
    text
}
