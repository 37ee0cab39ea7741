package secret

import (
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"
)

const (
	upper   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	letters = upper + "abcdefghijklmnopqrstuvwxyz"
	digits  = "0123456789"
)

// alphabets are the character classes in examples.
var alphabets = map[byte]string{
	'w': letters + digits + "_-", // with a letter or digit at both ends
	'W': letters + digits + "_-",
	'a': letters + digits,
	'c': letters,
	'l': "abcdefghijklmnopqrstuvwxyz" + digits,
	'u': upper + digits,
	'b': upper + "234567",
	'q': "abcdefghijklmnopqrstuvwxyz234567",
	'k': "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", // of Bech32
	'x': digits + "abcdef",
	'X': digits + "ABCDEF",
	'd': digits,
	's': letters + digits + "+/",
	'r': letters + digits + "./",
	'p': letters + digits + "!@#$%^&*()-_[]{}~+=,.;:/?|",
}

// expand replaces {w93} by 93 random characters of the class w, {B16} by the base64 of a name and
// a password of 16 characters, {J600} by the base64 of a JSON web token, and {P1200} by the base64
// of a private key in PEM.
func expand(example string, rnd *rand.Rand) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(example, "{")
		b.WriteString(before)
		if !ok {
			return strings.ReplaceAll(b.String(), `\n`, "\n")
		}
		spec, after, ok := strings.Cut(rest, "}")
		value, err := "", error(strconv.ErrSyntax)
		if ok && len(spec) > 1 {
			value, err = random(spec, rnd)
		}
		if err != nil {
			b.WriteByte('{')
			example = rest
			continue
		}
		b.WriteString(value)
		example = after
	}
}

// random returns a random value for a class and a length, such as w93.
func random(spec string, rnd *rand.Rand) (string, error) {
	n, err := strconv.Atoi(spec[1:])
	if err != nil {
		return "", err
	}
	encode := func(text string) (string, error) {
		return base64.StdEncoding.EncodeToString([]byte(expand(text, rnd))), nil
	}
	switch spec[0] {
	case 'B':
		return encode("ann:{a" + strconv.Itoa(n) + "}")
	case 'J':
		return encode("eyJhbGciOiJSUzI1NiIsImtpZCI6I{a40}.eyJhdWQiOlsi{a" + strconv.Itoa(n) + "}.{W342}")
	case 'P':
		return encode("-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat("{s64}\n", n/65) + "-----END RSA PRIVATE KEY-----\n")
	}
	set := alphabets[spec[0]]
	if set == "" {
		return "", strconv.ErrSyntax
	}
	value := make([]byte, n)
	for i := range value {
		set := set
		if spec[0] == 'w' && (i == 0 || i == n-1) {
			set = alphabets['a']
		}
		value[i] = set[rnd.IntN(len(set))]
	}
	return string(value), nil
}

// escape returns text as a JSON string, as in a transcript.
func escape(text string) string {
	b, _ := json.Marshal(map[string]string{"content": "Output:\n\t" + text + "\n"})
	return string(b) + "\n"
}

// forms are the forms in which a file can contain a secret.
var forms = []struct {
	name string
	in   func(string) string
}{
	{"raw", func(s string) string { return "first line\n" + s + "\nlast line\n" }},
	{"escaped once", escape},
	{"escaped twice", func(s string) string { return escape(escape(s)) }},
	{"base64", func(s string) string {
		return "data: " + base64.StdEncoding.EncodeToString([]byte("the content of a file of a project:\n"+s+"\nend\n")) + "\n"
	}},
}
