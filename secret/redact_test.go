package secret

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/soak"
)

func TestRedactLeavesNoSecretInAnyForm(t *testing.T) {
	s, err := New(Options{Key: []byte("key"), Environ: []string{"MY_TOKEN=correct-horse-battery-staple-9"}})
	if err != nil {
		t.Fatal(err)
	}
	const token = "ghp_a1B2c3D4e5F6a1B2c3D4e5F6a1B2c3D4e5F6"
	inJSON, err := json.Marshal(map[string]string{"a": "key: \"" + token + "\"\n"})
	if err != nil {
		t.Fatal(err)
	}
	key := "-----BEGIN PRIVATE KEY-----\n" + strings.Repeat("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n", 6) + "-----END PRIVATE KEY-----\n"
	for name, x := range map[string]struct{ text, kept string }{
		"twice":       {"one " + token + " two " + token + " three", " two "},
		"JSON":        {string(inJSON), `{"a":`},
		"environment": {"it is correct-horse-battery-staple-9.", "it is "},
		"base64":      {"see " + base64.StdEncoding.EncodeToString([]byte("token "+token+" and more text")), ""},
		"key":         {"before\n" + key + "after", ""},
	} {
		got, found := s.Redact("x", x.text, func(string) bool { return false })
		if len(found) == 0 || strings.Contains(got, token) || strings.Contains(got, "MIIEvQ") || !strings.Contains(got, x.kept) || !strings.Contains(got, "was left out]") {
			t.Errorf("%s: %q, %v", name, got, found)
		}
		if again := s.find("x", got, func(string) bool { return false }); len(again) > 0 {
			t.Errorf("%s: %q still has %v", name, got, again)
		}
		for _, f := range found {
			if f.value != "" {
				t.Errorf("%s: a finding has its value", name)
			}
		}
		allowed, found := s.Redact("x", x.text, func(string) bool { return true })
		if allowed != x.text || len(found) > 0 {
			t.Errorf("%s: allowed: %q, %v", name, allowed, found)
		}
	}
}

// TestNoCredentialIsPrinted has a credential of each format. No text for a person may contain it.
func TestNoCredentialIsPrinted(t *testing.T) {
	s, seed := scanner(t, Options{}), soak.Seed(t)
	none := func(string) bool { return false }
	for i, format := range readFormats(t) {
		text := expand(format.text, rand.New(rand.NewPCG(seed, uint64(i))))
		for _, form := range forms {
			secrets := s.find("x", form.in(text), none)
			redacted, found := s.Redact("x", form.in(text), none)
			printed, err := json.Marshal(found)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range secrets {
				middle := f.value[len(f.value)/2:]
				middle = middle[:min(len(middle), 6)]
				for _, shown := range []string{string(printed), fmt.Sprintf("%+v", found)} {
					if strings.Contains(shown, middle) {
						t.Errorf("%s, %s: the findings show a part of %q: %s", format.name, form.name, f.value, shown)
					}
				}
				if strings.Contains(redacted, f.value) {
					t.Errorf("%s, %s: the text still has %q: %s", format.name, form.name, f.value, redacted)
				}
			}
		}
	}
}
