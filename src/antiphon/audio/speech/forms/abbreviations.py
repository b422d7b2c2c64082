"""Abbreviations that are read in full, and those whose dot does not end a sentence."""

from __future__ import annotations

from antiphon.audio.speech.forms.rule import DIGITS, LETTERS, Match, alternatives, initials, rule

#: Titles before a name, with or without a dot: Mr. Smith, Mr Smith.
_TITLES = {
    "Mr": "Mister", "Mrs": "Missus", "Ms": "Miz", "Prof": "Professor", "Messrs": "Messers", "Mx": "Mix",
}  # fmt: skip
#: Abbreviations that always have their dot.
_DOTTED = {
    "Jr.": "Junior", "Sr.": "Senior", "Gen.": "General", "Sgt.": "Sergeant", "Capt.": "Captain", "Lt.": "Lieutenant",
    "Col.": "Colonel", "Maj.": "Major", "Cpl.": "Corporal", "Pvt.": "Private", "Adm.": "Admiral", "Cmdr.": "Commander",
    "Gov.": "Governor", "Sen.": "Senator", "Rep.": "Representative", "Rev.": "Reverend", "Hon.": "Honorable",
    "Pres.": "President", "Supt.": "Superintendent", "Insp.": "Inspector", "Det.": "Detective", "Mt.": "Mount",
    "Ft.": "Fort", "Esq.": "Esquire", "vs.": "versus", "etc.": "et cetera", "e.g.": "for example", "i.e.": "that is",
    "cf.": "compare", "viz.": "namely", "al.": "al", "approx.": "approximately", "dept.": "department",
    "Dept.": "Department", "est.": "established", "Est.": "Established", "Inc.": "Incorporated", "Ltd.": "Limited",
    "Corp.": "Corporation", "Co.": "Company", "Bros.": "Brothers", "Univ.": "University", "Assn.": "Association",
    "Govt.": "Government", "govt.": "government", "Intl.": "International", "Bldg.": "Building", "bldg.": "building",
    "Apt.": "Apartment", "apt.": "apartment", "avg.": "average", "misc.": "miscellaneous", "incl.": "including",
    "excl.": "excluding", "esp.": "especially", "Tel.": "Telephone", "tel.": "telephone", "ext.": "extension",
    "Ph.D.": "P H D", "Ph.D": "P H D", "max.": "maximum", "prof.": "professor", "hon.": "honorable",
    "Rep. of": "Republic of", "ave.": "avenue", "blvd.": "boulevard", "Ave.": "Avenue", "Blvd.": "Boulevard",
    "Vol.": "Volume", "vol.": "volume", "Vols.": "Volumes", "vols.": "volumes",
    "Rd.": "Road", "Hwy.": "Highway", "Pkwy.": "Parkway",
}  # fmt: skip
#: Abbreviations with their dot before a number; otherwise they are words that end a sentence.
_BEFORE_NUMBERS = {
    "No.": "Number", "no.": "number", "Nos.": "Numbers", "nos.": "numbers", "NO.": "Number", "pp.": "pages",
    "p.": "page", "pg.": "page", "vol.": "volume", "Vol.": "Volume", "vols.": "volumes", "Vols.": "Volumes",
    "fig.": "figure", "Fig.": "Figure",
    "figs.": "figures", "Figs.": "Figures", "ch.": "chapter", "Ch.": "Chapter", "sec.": "section", "Sec.": "Section",
    "art.": "article", "Art.": "Article", "eq.": "equation", "Eq.": "Equation", "op.": "opus", "Op.": "Opus",
    "ca.": "circa", "c.": "circa", "Ste.": "Suite", "ste.": "suite", "Rm.": "Room", "rm.": "room", "ed.": "edition",
    "pt.": "part", "Pt.": "Part", "ver.": "version", "Ver.": "Version", "tbl.": "table", "Ex.": "Exercise",
    "№": "number", "para.": "paragraph",
}  # fmt: skip
#: Abbreviations without a dot, as whole words.
_WORDS = {
    "vs": "versus", "PhD": "P H D", "w/o": "without", "w/": "with", "c/o": "care of", "b/c": "because",
    "and/or": "and or",
    "I/O": "I O", "A/B": "A B", "N/A": "N A", "n/a": "N A", "TCP/IP": "T C P I P", "AC/DC": "A C D C",
    "CI/CD": "C I C D", "WWI": "World War One", "WWII": "World War Two", "WW1": "World War One",
    "WW2": "World War Two", "aka": "A K A", "approx": "approximately", "qty": "quantity", "dept": "department",
}  # fmt: skip
_BEFORE_NAMES = (
    "Dr St Gen Sgt Capt Lt Col Maj Cpl Pvt Adm Cmdr Gov Sen Rep Rev Hon Pres Mt Ft vs eg ie e.g i.e cf al approx incl "
    "ca"
)
_IN_DATES_AND_ADDRESSES = (
    "Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Mon Tue Tues Wed Thu Thurs Fri Sat Sun est Est Apt apt ext "
    "Tel tel Bldg avg max"
)
#: Last words, without their dot, that do not end a sentence: a name or a number follows.
NO_SENTENCE_END = frozenset([*_TITLES, *_BEFORE_NAMES.split()])
#: Last words that do not end a sentence before a number.
NO_SENTENCE_END_BEFORE_NUMBERS = frozenset(
    [*(text.rstrip(".") for text in _BEFORE_NUMBERS), *_IN_DATES_AND_ADDRESSES.split()]
)


def _company(match: Match) -> str:
    """Read letters around a sign: `AT&T` → A T and T."""
    return f"{' '.join(match['first'])} and {' '.join(match['second'])}"


def _initials(match: Match) -> str:
    return " ".join(match[0].replace(".", "").upper())


RULES = [
    rule(
        rf"(?<![\w.])(?:{alternatives(_BEFORE_NUMBERS)})(?=\s*\d)",
        lambda m: _BEFORE_NUMBERS[m[0]],
        initials(_BEFORE_NUMBERS),
        DIGITS,
    ),
    rule(rf"(?<![\w.])(?:{alternatives(_DOTTED)})(?!\w)", lambda m: _DOTTED[m[0]], initials(_DOTTED), "."),
    rule(
        rf"(?<![\w.])(?P<title>{alternatives(_TITLES)})(?:\.(?!\w)|(?=\s+[A-Z]))",
        lambda m: _TITLES[m["title"]],
        initials(_TITLES),
    ),
    rule(rf"(?<![\w/.])(?:(?:{alternatives(_WORDS)})(?![\w/])|w/(?=\s?\w))", lambda m: _WORDS[m[0]], initials(_WORDS)),
    rule(r"(?<![\w&])(?P<first>[A-Z]{1,3})&(?P<second>[A-Z]{1,2})(?![\w&])", _company, LETTERS, "&"),
    rule(r"\b(?:[A-Za-z]\.){2,12}(?:[A-Za-z]\b)?", _initials, LETTERS, "."),
]
