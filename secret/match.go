package secret

import (
	"bytes"
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// try runs a rule at a hit and records a finding.
func (x *Scan) try(l *layer, r *rule, h hit) {
	start := h.end - h.word.length
	if exact := x.scanner.exact[h.word.index]; exact != "" {
		// The automaton folds case; a secret has only one.
		if string(l.buf[start:h.end]) == exact {
			x.report(l, r, start, exact)
		}
		return
	}
	text := l.buf[:min(start+r.window, len(l.buf))]
	if len(r.with) > 0 && !bytes.Contains(text[h.end:], r.with) {
		return
	}
	switch r.kind {
	case matchToken:
		if start > 0 && isWord(text[start-1]) {
			return
		}
		x.match(l, r, text, start, 0)
	case matchAssign:
		if at, ok := assigned(text, h.end, r.quoted); ok {
			x.match(l, r, text, at, 0)
		}
	case matchNear:
		from := max(0, start-r.before)
		x.match(l, r, text, from, h.end-from)
	}
}

// match runs the rule's pattern on the text from an offset on. The match must reach as far
// as least, behind the keyword.
func (x *Scan) match(l *layer, r *rule, text []byte, from, least int) {
	rest := text[from:]
	// A pattern that is searched for may match before the keyword first.
	for skipped := 0; ; {
		m := r.pattern.FindSubmatchIndex(rest[skipped:])
		if m == nil {
			return
		}
		for i := range m {
			m[i] += skipped
		}
		if m[1] < least {
			skipped = m[1]
			continue
		}
		if r.kind != matchNear && m[1] < len(rest) && isWord(rest[m[1]]) {
			return // the beginning of something longer
		}
		value := rest[m[0]:m[1]]
		if len(m) > 2 && m[2] >= 0 {
			value = rest[m[2]:m[3]]
		}
		if v := string(value); r.accepts(v) {
			x.report(l, r, from+m[0], v)
		}
		return
	}
}

func (x *Scan) report(l *layer, r *rule, offset int, value string) {
	key := r.name + "\x00" + value
	if x.seen[key] {
		return
	}
	x.seen[key] = true
	x.findings = append(x.findings, x.scanner.finding(x, r, l.recordAt(offset), value))
}

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

// maxName is how much of a name may follow the keyword, as in secret_key_for_signing.
const maxName = 30

// assigned returns where the value begins that text assigns to the name with a keyword that
// ends at end. With quoted the value must be in quotes, or follow = directly.
func assigned(text []byte, end int, quoted bool) (int, bool) {
	i := end
	for i < len(text) && i-end < maxName && (isWord(text[i]) || text[i] == '-' || text[i] == '.') {
		i++
	}
	i = skip(text, i, "\"'`\\]", 4)
	i = skip(text, i, " \t", 8)
	operator := i
	i = skip(text, i, ":=>(,", 3)
	if i == operator || text[operator] == ',' && i == operator+1 && text[operator-1] != '"' {
		return 0, false
	}
	shell := text[i-1] == '='
	spaces := i
	i = skip(text, i, " \t", 8)
	quotes := i
	i = skip(text, i, "\"'`\\", 4)
	if i >= len(text) {
		return 0, false
	}
	return i, !quoted || i > quotes || shell && spaces == quotes
}

// skip returns the first offset from i on that is not one of chars, most at the farthest.
func skip(text []byte, i int, chars string, most int) int {
	for n := 0; n < most && i < len(text) && strings.IndexByte(chars, text[i]) >= 0; n++ {
		i++
	}
	return i
}

// accepts says whether a value that fits the pattern is probably real.
func (r *rule) accepts(v string) bool {
	if isPlaceholder(v) || r.entropy > 0 && entropy(v) < r.entropy {
		return false
	}
	if r.mixed && !isMixed(v) {
		return false
	}
	if r.password && !isPassword(v) {
		return false
	}
	if r.userPass {
		raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(v, "="))
		user, password, ok := strings.Cut(string(raw), ":")
		return err == nil && ok && utf8.ValidString(user) && isText(raw) && isPassword(password)
	}
	return true
}

// entropy is the Shannon entropy of a string, in bits a byte.
func entropy(v string) float64 {
	var count [256]int
	for i := range len(v) {
		count[v[i]]++
	}
	sum := 0.0
	for _, n := range count {
		if n > 0 {
			p := float64(n) / float64(len(v))
			sum -= p * math.Log2(p)
		}
	}
	return sum
}

// placeholders are parts of values that authors of examples write.
var placeholders = strings.Fields(`example xxxx **** .... placeholder changeme change-me change_me your- your_ yourkey yourtoken
	my-secret my_secret insert- replace dummy redacted notreal not-real not_real fake sample todo abcdefgh 12345678 00000000
	deadbeef ${ {{ %( $( process.env os.environ getenv`)

// isPlaceholder says whether a value obviously stands for one.
func isPlaceholder(v string) bool {
	if v == "" || distinct(v) < 5 && len(v) >= 8 {
		return true
	}
	low := strings.ToLower(v)
	for _, p := range placeholders {
		if strings.Contains(low, p) {
			return true
		}
	}
	return v[0] == '$' || v[0] == '<' || v[0] == '{' || v[0] == '['
}

func distinct(v string) int {
	var seen [256]bool
	n := 0
	for i := range len(v) {
		if !seen[v[i]] {
			seen[v[i]] = true
			n++
		}
	}
	return n
}

// isMixed says whether a value is made by a machine: it has digits and letters, and letters
// and digits change places more often than in a name with a number in it. Short words with
// dots between them are an expression of a program.
func isMixed(v string) bool {
	if i := strings.IndexByte(v, '.'); i >= 0 && i < 8 {
		return false
	}
	var digits, letters, changes int
	last := byte(0)
	for i := range len(v) {
		kind := byte(0)
		switch c := v[i]; {
		case '0' <= c && c <= '9':
			digits++
			kind = 'd'
		case 'a' <= c && c <= 'z':
			letters++
			kind = 'l'
		case 'A' <= c && c <= 'Z':
			letters++
			kind = 'u'
		}
		if kind != last {
			changes++
		}
		last = kind
	}
	return digits > 0 && letters > 0 && changes*5 >= len(v)*2
}

// commonPasswords are those of examples, tests and local servers.
var commonPasswords = strings.Fields(`password passwd passw0rd pass secret admin root test tester testing guest user username
	postgres mysql mariadb redis mongo mongodb rabbitmq minio minioadmin default string token value null none true false
	required optional hidden unused correct wrong qwerty letmein hunter2 welcome foobar foo bar baz segno`)

// isPassword says whether a value may be a password that protects something. It must look
// chosen with care: two kinds of characters at least, and none of the words of examples.
func isPassword(v string) bool {
	if len(v) < 6 || isPlaceholder(v) {
		return false
	}
	low := strings.Trim(strings.ToLower(v), "0123456789!@#.-_")
	for _, c := range commonPasswords {
		if low == c {
			return false
		}
	}
	var digits, lowers, uppers, others bool
	for i := range len(v) {
		switch c := v[i]; {
		case '0' <= c && c <= '9':
			digits = true
		case 'a' <= c && c <= 'z':
			lowers = true
		case 'A' <= c && c <= 'Z':
			uppers = true
		case c == '.' || c == '_' || c == '-' || c == '/' || c == ':':
		default:
			others = true
		}
	}
	return digits && (lowers || uppers) && !(len(v) > 40 && others) || others && lowers && uppers
}

// mask returns a value's beginning and length.
func mask(v string) string {
	n := min(4, len(v)/5)
	if strings.ContainsAny(v[:n], "\n\r\t\x1b\x00") || !utf8.ValidString(v[:n]) {
		n = 0
	}
	return v[:n] + "… (" + strconv.Itoa(len(v)) + " characters)"
}
