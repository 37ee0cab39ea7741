// Colours comments, strings, numbers and keywords of a line of code. It knows no grammar: a line of
// a comment that began earlier is not recognized.

const longLine = 2000; // characters; longer lines stay plain

const words = new Set(`abstract as async await bool boolean break case catch char chan class const continue def default defer del
do double elif else end enum except export extends extern false final finally float fn for foreach from func function go goto if
impl implements import in include instanceof int interface is lambda let local long loop map match mod module mut namespace new nil
none not null None or and package pass pub private protected public raise range ref return self short signed sizeof static string
struct super switch this throw throws trait true True False try type typedef typeof undefined union unless unsafe unsigned until use
using var void volatile where while with yield then fi done esac select where insert update delete create table`.split(/\s+/));

const byName = [
  [/\.(py|rb|sh|bash|zsh|ya?ml|toml|pl|r|mk|conf|ini|env|dockerfile)$|(^|\/)(Makefile|Dockerfile)$/i, "#"],
  [/\.(sql|lua|hs|elm)$/i, "--"],
  [/\.(go|js|mjs|cjs|ts|tsx|jsx|c|h|cc|cpp|hpp|cs|java|kt|rs|swift|php|scala|css|scss|less|json|jsonc|proto|zig|dart)$/i, "//"],
];

const patterns = {
  "#": /(?<comment>#.*$)|(?<string>"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?)|(?<number>\b\d[\w.]*)|(?<word>[A-Za-z_]\w*)/g,
  "--": /(?<comment>--.*$)|(?<string>"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?)|(?<number>\b\d[\w.]*)|(?<word>[A-Za-z_]\w*)/g,
  "//": /(?<comment>\/\/.*$|\/\*.*?(?:\*\/|$)|^\s*\*(?:\s.*|\/)?$)|(?<string>"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|`(?:[^`\\]|\\.)*`?)|(?<number>\b\d[\w.]*)|(?<word>[A-Za-z_]\w*)/g,
};

// languageOf returns the name of the colouring for a path, or "" for text without colours.
export function languageOf(path) {
  return byName.find(([pattern]) => pattern.test(path))?.[1] ?? "";
}

// tokens returns the coloured ranges of a line: [start, end, class].
export function tokens(text, language) {
  if (!language || text.length > longLine) return [];
  const out = [];
  for (const m of text.matchAll(patterns[language])) {
    const { comment, string, number, word } = m.groups;
    const name = comment ? "comment" : string ? "string" : number ? "number" : words.has(word) ? "keyword" : "";
    if (name) out.push([m.index, m.index + m[0].length, name]);
  }
  return out;
}
