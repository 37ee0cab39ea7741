package endpoint

import (
	"bufio"
	"errors"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParse(t *testing.T) {
	for _, good := range []string{"https://api.example.com/v1", " http://localhost:8080 ", "http://[::1]:1/x?key=v"} {
		if u, err := parse(good); err != nil || u.Host == "" {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "localhost:8080", "ftp://host", "https://", "http://sk-secretsecret:%zz@host"} {
		if _, err := parse(bad); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestFirstLetter(t *testing.T) {
	for body, want := range map[string]byte{"": 0, " \r\n\t{": '{', "data: x": 'd', strings.Repeat(" ", 600) + "<": 0} {
		r := bufio.NewReader(strings.NewReader(body))
		if got := firstLetter(r); got != want {
			t.Errorf("%.20q begins with %q", body, got)
		}
		if rest, err := r.Peek(len(body)); string(rest) != body {
			t.Errorf("%.20q is left of it, %v", rest, err)
		}
	}
}

func TestRedactRemovesSecrets(t *testing.T) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://h/v1?api_key=inthequery&x=harmless", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer theauthorization")
	r.Header.Set("X-Api-Key", "theheaderkey")
	below := errors.New("below")
	err = (&exchange{secrets: secretsOf(r)}).redact("no:\n inthequery theauthorization theheaderkey sk-ofanotheruser harmless "+strings.Repeat("ü", 400), below)
	text := err.Error()
	for _, secret := range []string{"inthequery", "theauthorization", "theheaderkey", "sk-", "\n"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q has %q", text, secret)
		}
	}
	if !strings.Contains(text, "harmless") || utf8.RuneCountInString(text) > 300 || !errors.Is(err, below) {
		t.Errorf("%q", text)
	}
}

func TestNames(t *testing.T) {
	seen := map[string]string{}
	for _, text := range []string{"a.b", "a_b", "a b", "", "ü", strings.Repeat("x", 64), strings.Repeat("x", 65), strings.Repeat("x", 66), "read_file"} {
		name := Identifier(text, 64)
		if len(name) > 64 || name == "" || strings.IndexFunc(name, isSpecial) >= 0 {
			t.Errorf("%q becomes %q", text, name)
		}
		if other, there := seen[name]; there {
			t.Errorf("%q and %q become %q", text, other, name)
		}
		seen[name] = text
	}
	if ToolName("read_file") != "read_file" || Shorten("odd.one", 40) != "odd.one" || len(Shorten(strings.Repeat("ü", 40), 40)) != 40 {
		t.Error("what fits stays, what does not is cut")
	}
}
