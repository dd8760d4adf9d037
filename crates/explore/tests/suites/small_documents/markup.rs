//! Name spaces, references, sections, and where elements and names do not belong.

use super::Expected::{self, Refused, States};
use super::{FIVE, TYPE, net};

const SPACE: &str = "http://www.pnml.org/version-2009/grammar/pnml";

/// What XML can do to names, numbers and the places of elements.
pub fn of_markup() -> Vec<(&'static str, String, Expected)> {
    let place = |place: &str| net(place, "", "", "");
    let five = |more: &str| place(&format!("{FIVE}{more}"));
    let beside = |more: &str| net(FIVE, "", "", more);
    let arc = |arc: &str| net(FIVE, "", arc, "");
    let weight = |weight: &str| {
        arc(&format!(
            "\n<inscription><text>{weight}</text></inscription>"
        ))
    };
    let marking = |text: &str| {
        place(&format!(
            "<initialMarking><text>{text}</text></initialMarking>"
        ))
    };
    let tool = |inside: &str| {
        arc(&format!(
            "<toolspecific tool='x' version='1'>{inside}</toolspecific>"
        ))
    };
    let prefixed = beside("")
        .replace('<', "<n:")
        .replace("<n:/", "</n:")
        .replace("<n:?", "<?");
    let prefixed = prefixed.replacen("<n:pnml", &format!("<n:pnml xmlns:n='{SPACE}'"), 1);
    vec![
        ("a prefix for PNML's name space", prefixed, States(6)),
        (
            "a net in PNML's name space, in a document of none",
            beside("").replacen("<net", &format!("<net xmlns='{SPACE}'"), 1),
            States(6),
        ),
        (
            "a place of another name space",
            beside("\n<x:place xmlns:x='urn:x' id='r'/>"),
            Refused(5, "<x:place> of the name space \"urn:x\""),
        ),
        (
            "a marking of another name space",
            place("\n<initialMarking xmlns='urn:x'><text>5</text></initialMarking>"),
            Refused(5, "<initialMarking> of the name space \"urn:x\""),
        ),
        (
            "a text of no name space",
            place(&format!(
                "<initialMarking xmlns='{SPACE}'><text xmlns=''>5</text></initialMarking>"
            ))
            .replacen("<pnml", &format!("<pnml xmlns='{SPACE}'"), 1),
            Refused(4, "<text> of the name space \"\""),
        ),
        (
            "a prefix that is not declared",
            place("\n\n<x:initialMarking><x:text>5</x:text></x:initialMarking>"),
            Refused(6, "no name space has the prefix \"x\""),
        ),
        (
            "an id of another name space before and behind the right one",
            beside(
                "<place xmlns:x='urn:x' x:id='p' id='r'/><place xmlns:x='urn:x' id='s' x:id='p'/>",
            ),
            States(6),
        ),
        (
            "an id of another name space alone",
            beside("\n<place xmlns:x='urn:x' x:id='r'/>"),
            Refused(5, "no attribute \"id\""),
        ),
        (
            "a marking of a character section and text",
            marking("<![CDATA[1]]>2"),
            States(13),
        ),
        (
            "a marking of references",
            marking(" &#49;&#x32;\n"),
            States(13),
        ),
        (
            "an instruction in a marking",
            marking("1<?skip 3?>2"),
            States(13),
        ),
        (
            "an entity in a marking",
            marking("&five;"),
            Refused(4, "unknown entity &five;"),
        ),
        (
            "an expression for a marking",
            marking("2+3"),
            Refused(4, "\"2+3\" is not a marking"),
        ),
        (
            "a marking in other digits",
            marking("\u{ff15}"),
            Refused(4, "not a marking"),
        ),
        (
            "a marking without digits",
            marking(" "),
            Refused(4, "\"\" is not a marking"),
        ),
        (
            "elements in a character section",
            beside("\n<![CDATA[<place id='r'/>]]>"),
            Refused(5, "the text \"<place id='r'/>\" in <page>"),
        ),
        (
            "elements in a comment in a name",
            five(
                "<name><text>a<!-- </text></name><initialMarking><text>9</text> -->b</text></name>",
            ),
            States(6),
        ),
        (
            "an id by references",
            beside("\n<place id='&#x70;'/>"),
            Refused(5, "the id \"p\" is taken since line 4"),
        ),
        (
            "a place with an arc's id on another page",
            beside("\n<page id='h'>\n<place id='a'/></page>"),
            Refused(6, "the id \"a\" is taken since line 4"),
        ),
        (
            "a page with a place's id",
            beside("\n<page id='p'/>"),
            Refused(5, "the id \"p\" is taken since line 4"),
        ),
        (
            "an arc to a page",
            beside("\n<arc id='c' source='t' target='g'/>"),
            Refused(5, "target names \"g\""),
        ),
        (
            "a reference to a page",
            beside("\n<page id='h'><referencePlace id='r' ref='h'/></page>"),
            Refused(5, "a reference names \"h\""),
        ),
        (
            "an id with a space",
            beside("\n<arc id='c' source=' p' target='t'/>"),
            Refused(5, "source names \" p\""),
        ),
        (
            "a second arc from a reference on a page within a page",
            beside(
                "<page id='h'><page id='i'><referencePlace id='r' ref='s'/><referenceTransition id='u' ref='t'/>\
                 <arc id='c' source='r' target='u'/></page><referencePlace id='s' ref='p'/></page>",
            ),
            States(3),
        ),
        (
            "a negative weight",
            weight("-1"),
            Refused(5, "\"-1\" is not a weight"),
        ),
        (
            "a weight with a fraction",
            weight("1.0"),
            Refused(5, "\"1.0\" is not a weight"),
        ),
        (
            "a hexadecimal weight",
            weight("0x2"),
            Refused(5, "\"0x2\" is not a weight"),
        ),
        (
            "a huge weight",
            weight("340282366920938463463374607431768211457"),
            Refused(5, "is above 4294967295"),
        ),
        ("the largest weight", weight("+04294967295"), States(1)),
        (
            "a marking in a transition",
            net("", FIVE, "", ""),
            Refused(4, "<transition> with <initialMarking>"),
        ),
        (
            "a weight in a place",
            five("<inscription><text>2</text></inscription>"),
            Refused(4, "<place> with <inscription>"),
        ),
        (
            "a tool's inhibitor arc",
            tool("<a><b/>\n<InhibitorArc/></a>"),
            Refused(5, "an arc of type \"inhibitor\""),
        ),
        (
            "a tool's reset arc, as text",
            tool("\n<kind><![CDATA[Reset]]></kind>"),
            Refused(5, "an arc of type \"reset\""),
        ),
        (
            "a tool's inhibitor arc, as an attribute",
            arc("\n<toolspecific tool='x' version='1' kind='inhibitor'/>"),
            Refused(5, "an arc of type \"inhibitor\""),
        ),
        (
            "a tool's other words on an arc",
            tool("<probability>1.0</probability><curve>&lt;</curve>"),
            States(6),
        ),
        (
            "lines that end as on other systems",
            beside("\r\n\r\n<places/>").replace("\n<pnml", "\r\n<pnml"),
            Refused(6, "<page> with <places>"),
        ),
        (
            "a second net within the first one",
            beside(&format!("\n<net id='m' type='{TYPE}'/>")),
            Refused(5, "<page> with <net>"),
        ),
    ]
}
