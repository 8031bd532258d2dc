"""Small changes of C++ sources that make other programs, found in the text.

A Place is a range of a file's text and what stands there instead. Comments, strings, preprocessor
lines, debug lines of the log and lengths of buffers are no places. Line numbers stay what they are.
What does not compile is found out by compiling.
"""
import re
from collections import namedtuple

Place = namedtuple("Place", "file start end new operator")

HIDDEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\''
    r'|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*|\bstatic_assert\([^;]*;|\bGSHMEM_DEBUG\((?:[^;"]|"[^"]*")*;',
    re.DOTALL | re.MULTILINE)

COMPARED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
COMPUTED = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*"}


def plus_one(number):
    return str(int(number.replace("'", "")) + 1)


# clang-format puts spaces on both sides of what has two operands, and of nothing else.
SIMPLE = [
    ("compare", r"(?<=\s)(?:<=|>=|==|!=|<|>)(?=\s)", lambda m: COMPARED[m.group()]),
    ("logic", r"(?<=\s)(?:&&|\|\|)(?=\s)", lambda m: "||" if m.group() == "&&" else "&&"),
    ("arithmetic", r"(?<=[\w)\]] )[-+*/%](?=\s)", lambda m: COMPUTED[m.group()]),
    ("bool", r"\b(?:true|false)\b", lambda m: "false" if m.group() == "true" else "true"),
    ("constant", r"(?<![\w.'])\d+(?:'\d+)*(?=u?\b)(?![.\w]*[.xe'])", lambda m: plus_one(m.group())),
    ("flag", r" \| [\w:]+(?=[,;)\s])", lambda m: ""),
]
# A buffer that is an element longer is as good.
BUFFER = re.compile(r'^[ \t]*(?!return\b)(?:[\w:]+ )+\w+\[(\d+)\](?=;| = "";)', re.MULTILINE)
KEYWORDS = set("""return if for while switch case break continue throw using namespace delete new else
    do goto try catch public private protected default template typedef struct class enum const
    constexpr static extern auto inline union friend operator explicit noexcept""".split())
CLOSERS = {"(": ")", "[": "]", "{": "}"}


def mask(text):
    """The text with blanks for what is no code."""
    return HIDDEN.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def closed(code, at):
    """The position behind the bracket that closes the one at `at`; the end when there is none."""
    stack = []
    for i in range(at, len(code)):
        if code[i] in CLOSERS:
            stack.append(CLOSERS[code[i]])
        elif stack and code[i] == stack[-1]:
            stack.pop()
            if not stack:
                return i + 1
    return len(code)


def conditions(code):
    """Begin and end of what stands between the parentheses of if and while."""
    for match in re.finditer(r"\b(?:if|while) \(", code):
        begin, end = match.end(), closed(code, match.end() - 1) - 1
        if ";" not in code[begin:end]:
            yield begin, end


def call_or_assignment(code, at):
    """The end of the statement that begins at `at`, if it is one of these."""
    head = re.compile(r"(?:\(void\)!?)?(?:\*|\+\+|--)?(?:::)?([A-Za-z_]\w*)(?:::\w+)*").match(code, at)
    if head is None or head.group(1) in KEYWORDS:
        return None
    changes = code.startswith(("++", "--"), at)
    at = head.end()
    while True:
        part = re.compile(r"(?:\.|->)\w+|<[\w:, *&]+>(?=\()").match(code, at)
        if part:
            at = part.end()
        elif code[at] in "([":
            changes = changes or code[at] == "("
            at = closed(code, at)
        else:
            break
    step = re.compile(r"(?:\+\+|--)?;").match(code, at)
    if step and (changes or len(step.group()) > 1):
        return step.end()
    if not re.compile(r"\s(?:=|[-+*/|&^]=)\s").match(code, at):
        return None
    while at < len(code) and code[at] != ";":
        at = closed(code, at) if code[at] in CLOSERS else at + 1
    return at + 1


def statements(code):
    """Operator, begin and end of each statement that can be left out."""
    for match in re.finditer(r"(?:[;{})]|\belse)\s+(?=[\w(*+:-])", code):
        begin = match.end()
        end = call_or_assignment(code, begin)
        if end is not None:
            yield "drop", begin, end
            continue
        leave = re.compile(r"(return|throw|break|continue)\b[^;]*;").match(code, begin)
        if leave and (match.group()[0] == ")" or leave.group() in ("return;", "break;", "continue;")):
            yield "guard", begin, leave.end()


def blank_lines(text):
    return "\n" * text.count("\n")


def places(file, text):
    """All places of a file, in the order of the text."""
    code = mask(text)
    found, buffers = [], {m.start(1) for m in BUFFER.finditer(text)}
    for operator, pattern, new in SIMPLE:
        found += [Place(file, m.start(), m.end(), new(m), operator)
                  for m in re.finditer(pattern, code) if m.start() not in buffers]
    found += [Place(file, begin, end, f"!({text[begin:end]})", "not")
              for begin, end in conditions(code)]
    found += [Place(file, begin, end, "{}" + blank_lines(text[begin:end]), operator)
              for operator, begin, end in statements(code)]
    return sorted(found)


def changed_lines(place, text):
    """The line or lines of the place, before and after, each on one line without indentation. With
    lines before it until there is one such place in the file."""
    begin = text.rfind("\n", 0, place.start) + 1
    end = text.find("\n", place.end)
    while begin > 0 and text.count(text[begin:end]) > 1:
        begin = text.rfind("\n", 0, begin - 1) + 1
    def flat(lines):
        return " ".join(lines.split())
    return (flat(text[begin:end]),
            flat(text[begin:place.start] + place.new + text[place.end:end]))
