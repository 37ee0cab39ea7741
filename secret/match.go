package secret

import (
	"bytes"
	"encoding/base64"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// try runs a rule at a hit and records a finding.
func (x *Scan) try(l *layer, r *rule, h hit) {
	start := h.end - h.word.length
	if exact := x.scanner.exact[h.word.index]; exact != "" {
		// The automaton ignores case, but a secret has only one.
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
		x.match(l, r, text, start, 0)
	case matchAssign:
		x.matchAssigned(l, r, text, start, h.end)
	case matchNear:
		from := max(0, start-r.before)
		x.match(l, r, text, from, h.end-from)
	}
}

// match runs the rule's pattern on the text from an offset on. The match must reach at least least
// bytes beyond the offset, so that it covers the keyword.
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
		if r.kind == matchToken && m[1] < len(rest) && isWord(rest[m[1]]) {
			return // the beginning of something longer
		}
		if v := value(rest, m); r.accepts(v, r.mixed) {
			x.report(l, r, from+m[0], v)
		}
		return
	}
}

// matchAssigned runs the rule's pattern on a value. The value is assigned to the name whose keyword is
// between start and end.
func (x *Scan) matchAssigned(l *layer, r *rule, text []byte, start, end int) {
	a, ok := assigned(text, start, end)
	if !ok || !r.takes(a, text, end-start) {
		return
	}
	m := r.pattern.FindSubmatchIndex(text[a.value:])
	if m == nil {
		return
	}
	after := a.value + m[1]
	if after < len(text) && isWord(text[after]) || r.strict && !a.isPlain(text, after) {
		return
	}
	v := value(text[a.value:], m)
	mixed := r.mixed
	switch {
	case mixed != mixedAny && isConstant(a.name):
		mixed = mixedLoose // the name is a setting, not a variable of a program
	case r.strict && a.style == bare && !isConstant(a.name) && !strings.ContainsAny(v, "!#%&*+=?@^~"):
		mixed = mixedLoose // it may be a variable of a program
	}
	if r.accepts(v, mixed) {
		x.report(l, r, a.value, v)
	}
}

// takes reports whether a rule applies to an assignment. keyword is the length of the keyword in its name.
func (r *rule) takes(a assignment, text []byte, keyword int) bool {
	return (!r.named || isSecretName(a.name)) && (!r.whole || len(a.name) == keyword) && (!r.setting || a.isSetting(text))
}

// value returns the first group of a match, or the whole match if there is no group.
func value(text []byte, m []int) string {
	if len(m) > 2 && m[2] >= 0 {
		return string(text[m[2]:m[3]])
	}
	return string(text[m[0]:m[1]])
}

func (x *Scan) report(l *layer, r *rule, offset int, value string) {
	key := r.name + "\x00" + value
	if x.seen[key] {
		return
	}
	x.seen[key] = true
	x.findings = append(x.findings, x.scanner.finding(x, r, l.recordAt(offset), value))
}

func isWord(c byte) bool { return classOf(c) != otherChar || c == '_' }

// accepts reports whether a value that fits the pattern is probably real.
func (r *rule) accepts(v string, mixed mixing) bool {
	if isPlaceholder(v) || r.entropy > 0 && entropy(v) < r.entropy {
		return false
	}
	if mixed != mixedAny && !isMixed(v, mixed) {
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

// isPlaceholder reports whether a value is obviously a placeholder.
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

// isMixed reports whether a value looks generated: it has digits and letters, and changes between
// letters and digits more often than a name with a number in it.
func isMixed(v string, how mixing) bool {
	if isExpression(v) || isPath(v) {
		return false
	}
	var count [4]int
	changes, last := 0, otherChar
	for i := range len(v) {
		class := classOf(v[i])
		count[class]++
		if class != last {
			changes++
		}
		last = class
	}
	digits, lowers, uppers := count[digit], count[small], count[capital]
	letters := lowers + uppers
	if digits == 0 || letters == 0 {
		return false
	}
	if changes*5 >= len(v)*2 {
		return true
	}
	// Random letters of one case and digits change 2·digits·letters/length times on average. If a
	// value has other characters, it is a hexadecimal number, such as a UUID, or a list of words.
	isLongNumber := len(v) >= 16 && digits*10 >= len(v) && (digits+letters == len(v) || isHex(v))
	return how == mixedLoose && isLongNumber && (lowers == 0 || uppers == 0) && changes*len(v) >= digits*letters
}

// A charClass is the class of an ASCII character.
type charClass int

const (
	otherChar charClass = iota
	digit
	small
	capital
)

func classOf(c byte) charClass {
	switch {
	case '0' <= c && c <= '9':
		return digit
	case 'a' <= c && c <= 'z':
		return small
	case 'A' <= c && c <= 'Z':
		return capital
	}
	return otherChar
}

// isExpression reports whether a value begins with a short word and a dot, like an expression of a program.
func isExpression(v string) bool {
	i := strings.IndexByte(v, '.')
	return 0 <= i && i < 8
}

// isPath reports whether a value begins like a path.
func isPath(v string) bool {
	return strings.HasPrefix(v, "/") || strings.HasPrefix(v, "./") || strings.HasPrefix(v, "../")
}

// isHex reports whether v is a hexadecimal number, in parts with dashes between them.
func isHex(v string) bool {
	return strings.Trim(v, "0123456789abcdef-") == "" || strings.Trim(v, "0123456789ABCDEF-") == ""
}

// commonPasswords are passwords of examples, tests and local servers.
var commonPasswords = strings.Fields(`password passwd passw0rd pass secret admin root test tester testing guest user username
	postgres mysql mariadb redis mongo mongodb rabbitmq minio minioadmin default string token value null none true false
	required optional hidden unused correct wrong qwerty letmein hunter2 welcome foobar foo bar baz segno`)

// isPassword reports whether a value may be a password that protects something. It must look
// carefully chosen: it has at least two kinds of characters and contains no word of examples.
func isPassword(v string) bool {
	if len(v) < 6 || isPath(v) || isPlaceholder(v) || isCommonPassword(v) || strings.ContainsFunc(v, isControl) {
		return false
	}
	digits, letters, others := countKinds(v)
	bothCases := strings.ToLower(v) != v && strings.ToUpper(v) != v
	switch {
	case digits > 0 && letters > 0:
		return len(v) <= 40 || others == 0
	case others > 0:
		return bothCases
	}
	return letters == len(v) && bothCases && hasRandomCase(v)
}

// countKinds counts the characters of a value. others are those that occur neither in names nor in paths.
func countKinds(v string) (digits, letters, others int) {
	for i := range len(v) {
		switch c := v[i]; {
		case classOf(c) == digit:
			digits++
		case isLetter(c):
			letters++
		case strings.IndexByte("._-/:", c) < 0:
			others++
		}
	}
	return digits, letters, others
}

func isControl(c rune) bool { return c < ' ' || c == 0x7f }

func isCommonPassword(v string) bool {
	return slices.Contains(commonPasswords, strings.Trim(strings.ToLower(v), "0123456789!@#.-_"))
}

// hasRandomCase reports whether letters change their case more often than the words of a name do.
func hasRandomCase(letters string) bool {
	turns, pairs := 0, 0
	for i := 1; i < len(letters); i++ {
		if isUpper(letters[i]) != isUpper(letters[i-1]) {
			turns++
		} else if isUpper(letters[i]) {
			pairs++
		}
	}
	return turns*5 >= len(letters)*2 && pairs > 0
}

// isLetter reports whether a byte belongs to a letter, perhaps one outside of ASCII.
func isLetter(c byte) bool { return 'a' <= lower(c) && lower(c) <= 'z' || c >= 0x80 }

func isUpper(c byte) bool { return classOf(c) == capital }

// mask returns the beginning of a value, and its length.
func mask(v string) string {
	n := min(4, len(v)/5)
	for _, c := range []byte(v[:n]) {
		if c <= ' ' || c >= 0x7f {
			n = 0
		}
	}
	return v[:n] + "… (" + strconv.Itoa(len(v)) + " characters)"
}
