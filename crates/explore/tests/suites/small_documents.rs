//! Small documents, each with one thing that other tools write, and what becomes of it: explored
//! with the right number of states, or refused with a line and a reason.

mod markup;

use farslot_explore::explicit::{Options, Progress, explore_net};
use farslot_explore::pnml::parse;
use std::fmt::Write;

const TYPE: &str = "http://www.pnml.org/version-2009/grammar/ptnet";
/// Five tokens that go from p to q one by one: six states.
const ARCS: &str = "<arc id='a' source='p' target='t'/><arc id='b' source='t' target='q'/>";

#[derive(Clone, Copy)]
enum Expected {
    States(u64),
    /// In this line, for a reason that has these words.
    Refused(u64, &'static str),
}
use Expected::{Refused, States};

/// A net whose elements are what PIPE 2 writes.
const PIPE: &str = "<pnml>
<net id='Net-One' type='P/T net'><token id='Default' enabled='true' red='0' green='0' blue='0'/>
<labels x='1' y='1' width='9' height='9' border='true'><text>a note</text></labels>
<place id='p'><graphics><position x='1' y='2'/></graphics><name><value>p</value><graphics/></name>
<initialMarking><value>Default,5</value><graphics><offset x='0' y='0'/></graphics></initialMarking><capacity><value>0</value></capacity></place>
<place id='q'><initialMarking><value>Default,0</value></initialMarking><capacity><value>0</value></capacity></place>
<transition id='t'><orientation><value>0</value></orientation><rate><value>1.0</value></rate><timed><value>false</value></timed>
<infiniteServer><value>false</value></infiniteServer><priority><value>1</value></priority></transition>
<arc id='a' source='p' target='t'><graphics/><inscription><value>Default,1</value><graphics/></inscription>
<tagged><value>false</value></tagged><arcpath id='000' x='1' y='1' curvePoint='false'/><type value='normal'/></arc>
<arc id='b' source='t' target='q'><inscription><value>Default,1</value></inscription><type value='normal'/></arc>
</net></pnml>";

/// What is in place p, in transition t, in the arc from p to t, and beside them: line 4.
fn net(place: &str, transition: &str, arc: &str, beside: &str) -> String {
    format!(
        "<?xml version='1.0'?>\n<pnml>\n<net id='n' type='{TYPE}'><page id='g'>\n\
         <place id='p'>{place}</place><place id='q'/><transition id='t'>{transition}</transition>\
         <arc id='a' source='p' target='t'>{arc}</arc><arc id='b' source='t' target='q'/>{beside}\n\
         </page></net></pnml>"
    )
}

const FIVE: &str = "<initialMarking><text>5</text></initialMarking>";

fn of_places() -> Vec<(&'static str, String, Expected)> {
    let place = |place: &str| net(place, "", "", "");
    let five = |more: &str| place(&format!("{FIVE}{more}"));
    vec![
        ("a marking", place(FIVE), States(6)),
        (
            "a marking's drawing",
            place(
                "<initialMarking><graphics/><text>5</text><toolspecific tool='x' version='1'/></initialMarking>",
            ),
            States(6),
        ),
        (
            "a value for a text",
            place("<initialMarking><value>5</value></initialMarking>"),
            States(6),
        ),
        (
            "PIPE's class of tokens",
            place("<initialMarking><value>Default,5</value></initialMarking>"),
            States(6),
        ),
        (
            "two of PIPE's classes",
            place("<initialMarking><value>Default,5,Red,1</value></initialMarking>"),
            Refused(4, "not a marking"),
        ),
        (
            "a name and a drawing",
            five("<name><text>P &amp; Q</text></name><graphics><fill/></graphics>"),
            States(6),
        ),
        (
            "a comment in a marking",
            place("<initialMarking><!-- a 7 --><text>5<!-- and -->0</text></initialMarking>"),
            States(51),
        ),
        (
            "two texts",
            place("<initialMarking><text>1</text>\n<text>7</text></initialMarking>"),
            Refused(5, "<initialMarking> has more than one text"),
        ),
        (
            "a text and a value",
            place("<initialMarking><text>1</text><value>7</value></initialMarking>"),
            Refused(4, "more than one text"),
        ),
        (
            "two markings",
            five(FIVE),
            Refused(4, "a second <initialMarking>"),
        ),
        (
            "an empty marking",
            place("<initialMarking/>"),
            Refused(4, "<initialMarking> has no text"),
        ),
        (
            "a marking without its text",
            place("<initialMarking>\n5</initialMarking>"),
            Refused(5, "the text \"5\" in <initialMarking>"),
        ),
        (
            "a marking that is an attribute",
            place("<initialMarking value='5'/>"),
            Refused(4, "attribute \"value\""),
        ),
        (
            "a part of a number",
            place("<initialMarking><text><b>5</b></text></initialMarking>"),
            Refused(4, "<text> with <b>"),
        ),
        (
            "a high-level marking",
            place("<hlinitialMarking><text>1`a</text></hlinitialMarking>"),
            Refused(4, "<place> with <hlinitialMarking>"),
        ),
        (
            "a structure in a marking",
            place("<initialMarking><text>1</text><structure/></initialMarking>"),
            Refused(4, "<initialMarking> with <structure>"),
        ),
        (
            "a colour",
            five("<type><text>dot</text></type>"),
            Refused(4, "<place> with <type>"),
        ),
        (
            "no capacity",
            five("<capacity><value>0</value></capacity>"),
            States(6),
        ),
        (
            "a capacity",
            five("\n<capacity><value>1</value></capacity>"),
            Refused(5, "<capacity> of \"1\""),
        ),
        (
            "a capacity without value",
            five("<capacity/>"),
            Refused(4, "<capacity> has no text"),
        ),
        (
            "an arc in a place",
            five("<arc id='c' source='p' target='t'/>"),
            Refused(4, "<place> with <arc>"),
        ),
        (
            "a place in a place",
            five("<place id='r'/>"),
            Refused(4, "<place> with <place>"),
        ),
        (
            "text in a place",
            five("\n\n5"),
            Refused(6, "the text \"5\" in <place>"),
        ),
        (
            "a marking in a name",
            place("<name><initialMarking><text>9</text></initialMarking></name>"),
            States(1),
        ),
    ]
}

fn of_transitions_and_arcs() -> Vec<(&'static str, String, Expected)> {
    let transition = |transition: &str| net(FIVE, transition, "", "");
    let arc = |arc: &str| net(FIVE, "", arc, "");
    vec![
        (
            "a transition's name",
            transition("<name><text>go</text></name>"),
            States(6),
        ),
        (
            "a guard",
            transition("<condition><text>false</text></condition>"),
            Refused(4, "<transition> with <condition>"),
        ),
        (
            "a delay",
            transition("\n<delay><value>[2,3]</value></delay>"),
            Refused(5, "<transition> with <delay>"),
        ),
        (
            "one priority",
            transition("<priority><value>2</value></priority>"),
            States(6),
        ),
        (
            "other priorities",
            net(
                FIVE,
                "<priority><value>2</value></priority>",
                "",
                "<transition id='u'/>",
            ),
            Refused(4, "differ in their priority"),
        ),
        (
            "a timed transition and one that is not",
            net(
                FIVE,
                "<timed><value>true</value></timed>",
                "",
                "<transition id='u'><timed><value>false</value></timed></transition>",
            ),
            Refused(4, "differ in whether they are timed"),
        ),
        (
            "a rate",
            transition("<rate><value>0.5</value></rate>"),
            States(6),
        ),
        (
            "a weight",
            arc("<inscription><text>2</text></inscription>"),
            States(3),
        ),
        (
            "a value for a weight's text",
            arc("<inscription><value>2</value></inscription>"),
            States(3),
        ),
        (
            "two weights",
            arc(
                "<inscription><text>2</text></inscription><inscription><text>3</text></inscription>",
            ),
            Refused(4, "a second <inscription>"),
        ),
        (
            "an empty weight",
            arc("<inscription><graphics/></inscription>"),
            Refused(4, "<inscription> has no text"),
        ),
        (
            "a weight of 0",
            arc("<inscription><text>0</text></inscription>"),
            Refused(4, "weight 0"),
        ),
        (
            "a variable as a weight",
            arc("<inscription><text>x</text></inscription>"),
            Refused(4, "\"x\" is not a weight"),
        ),
        (
            "a high-level inscription",
            arc("<hlinscription><text>2`x</text></hlinscription>"),
            Refused(4, "<arc> with <hlinscription>"),
        ),
        ("a normal arc", arc("<type value='normal'/>"), States(6)),
        (
            "an inhibitor arc",
            arc("<type value='inhibitor'/>"),
            Refused(4, "\"inhibitor\""),
        ),
        (
            "a type as text",
            arc("<type><text>inhibitor</text></type>"),
            Refused(4, "no attribute \"value\""),
        ),
        (
            "a normal type with a text",
            arc("<type value='normal'><text>reset</text></type>"),
            Refused(4, "<type> with <text>"),
        ),
        (
            "an arctype",
            arc("<arctype><text>read</text></arctype>"),
            Refused(4, "<arc> with <arctype>"),
        ),
        (
            "a tagged arc",
            arc("<tagged><value>true</value></tagged>"),
            Refused(4, "<tagged> of \"true\""),
        ),
    ]
}

fn of_nets() -> Vec<(&'static str, String, Expected)> {
    let beside = |more: &str| net(FIVE, "", "", more);
    let within = |attributes: &str, net: &str| {
        format!(
            "<pnml><net id='n' type='{TYPE}' {attributes}><page id='g'>{net}</page></net></pnml>"
        )
    };
    let attribute = |place: &str| {
        within(
            "",
            &format!("<place id='p' {place}/><place id='q'/><transition id='t'/>{ARCS}"),
        )
    };
    vec![
        ("what PIPE writes", PIPE.into(), States(6)),
        (
            "PIPE with a capacity",
            PIPE.replacen("<capacity><value>0<", "<capacity><value>3<", 1),
            Refused(5, "<capacity> of \"3\""),
        ),
        (
            "PIPE with two classes",
            PIPE.replacen("<token ", "<token id='Red'/>\n<token ", 1),
            Refused(3, "more than one class"),
        ),
        (
            "a marking as an attribute",
            attribute("initialMarking='5'"),
            Refused(1, "an attribute \"initialMarking\""),
        ),
        (
            "a capacity as an attribute",
            attribute("capacity='5'"),
            Refused(1, "an attribute \"capacity\""),
        ),
        (
            "a foreign name space's attribute",
            attribute("xmlns:x='urn:x' x:y='1' xml:space='preserve'"),
            States(1),
        ),
        (
            "an attribute of PNML's name space, with a prefix",
            beside(
                "<arc xmlns:x='http://www.pnml.org/version-2009/grammar/pnml' id='c' source='p' \
                 target='t' x:type='inhibitor'/>",
            ),
            Refused(4, "<arc> with an attribute \"x:type\" of PNML's name space"),
        ),
        (
            "an attribute whose prefix has no name space",
            attribute("zz:initialMarking='5'"),
            Refused(1, "no name space has the prefix \"zz\""),
        ),
        (
            "a net that says that it is timed",
            within("timed='yes'", ""),
            Refused(1, "<net> with an attribute \"timed\""),
        ),
        (
            "a weight as an attribute",
            beside("\n<arc id='c' source='p' target='t' weight='2'/>"),
            Refused(5, "<arc> with an attribute \"weight\""),
        ),
        (
            "an arc of another type by attribute",
            beside("<arc id='c' source='p' target='t' type='reset'/>"),
            Refused(4, "\"reset\""),
        ),
        (
            "a declaration",
            beside("<declaration/>"),
            Refused(4, "<page> with <declaration>"),
        ),
        (
            "a reference that holds a marking",
            beside(&format!(
                "<referencePlace id='r' ref='p'>{FIVE}</referencePlace>"
            )),
            Refused(4, "<reference> with <initialMarking>"),
        ),
        (
            "text beside the places",
            beside("\nhalf of it"),
            Refused(5, "the text \"half of it\" in <page>"),
        ),
        (
            "a module beside the net",
            format!("<pnml><net id='n' type='{TYPE}'/>\n<module/></pnml>"),
            Refused(2, "<pnml> with <module>"),
        ),
        (
            "a tool's part of the document",
            format!(
                "<pnml><toolspecific tool='x' version='1'><net/></toolspecific><net id='n' type='{TYPE}'/></pnml>"
            ),
            States(1),
        ),
    ]
}

fn outcome(text: &str) -> String {
    match parse(text.as_bytes()) {
        Err(error) => error.to_string(),
        Ok(net) => {
            let explored = explore_net(&net, None, &Options::default(), None, &Progress::default());
            match explored {
                Ok((explored, _)) => format!("{} states", explored.states),
                Err(error) => error.to_string(),
            }
        }
    }
}

#[test]
fn small_documents_are_explored_or_refused() {
    let cases = [
        of_places(),
        of_transitions_and_arcs(),
        of_nets(),
        markup::of_markup(),
    ]
    .concat();
    let (mut table, mut wrong) = (String::new(), 0);
    for (name, text, expected) in &cases {
        let found = outcome(text);
        let is_right = match expected {
            States(states) => found == format!("{states} states"),
            Refused(line, said) => {
                found.starts_with(&format!("line {line}: ")) && found.contains(said)
            }
        };
        let mark = if is_right { ' ' } else { '!' };
        wrong += usize::from(!is_right);
        writeln!(table, "{mark} {name}: {found}").unwrap();
    }
    println!("{table}");
    assert_eq!(wrong, 0, "of {} documents:\n{table}", cases.len());
}
