package ownership

import (
	"slices"
	"testing"
)

func TestNaming(t *testing.T) {
	const text = "sed -i s/a/b/ two/main.go; rm -r gone/ && cat /root/abs.go ./here.go\n/root/dir"
	x := newIndex([]Call{{text: text}}, "/root")
	for path, want := range map[string]bool{
		"two/main.go": true, "main.go": false, "one/main.go": false, "abs.go": true, "here.go": true,
		"gone/x/y": true, "dir/z": true, "on": false, "e.go": false, "two": false,
	} {
		if got := len(x.naming(path)) > 0; got != want {
			t.Errorf("%s: named %v", path, !want)
		}
	}
}

// TestMention tells a path in the text of a call from a directory above it.
func TestMention(t *testing.T) {
	x := newIndex([]Call{{text: "ls src"}, {text: "cat src/a"}, {text: "diff src src/a"}, {text: "make"}}, "/root")
	want := []mention{{0, true}, {1, false}, {2, false}}
	if got := x.naming("src/a"); !slices.Equal(got, want) {
		t.Errorf("the calls are %v, want %v", got, want)
	}
}

// TestNamingInDirectories checks names that are relative to directories of a command.
func TestNamingInDirectories(t *testing.T) {
	for text, want := range map[string]string{
		"touch b":                             "sub/b",
		"touch ../b":                          "b",
		"touch /root/other/b":                 "other/b",
		"touch 'two words'":                   "sub/two words",
		"cd deep; touch b":                    "sub/deep/b",
		"cd deep && cd er && touch b":         "sub/deep/er/b",
		"(cd deep && make); cd er && touch b": "sub/er/b",
		"cd /root/other && touch b":           "other/b",
		"make -C deep b":                      "sub/deep/b",
	} {
		c := Calls(call("1", "Bash", 10, 12, command(text)), Context{Dir: "/root/sub"})
		x := newIndex(c, "/root")
		if got := x.naming(want); !slices.Equal(got, []mention{{0, false}}) {
			t.Errorf("%s: it names %s: %v", text, want, got)
		}
		if got := x.naming("another/b"); len(got) > 0 {
			t.Errorf("%s: it names another/b", text)
		}
	}
}
