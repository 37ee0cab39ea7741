package storetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
	"pgregory.net/rapid"
)

func addresses() []clause {
	return []clause{
		{"a/b and a_b", "two threads whose names differ are two, however a path or a key would spell them", slashAndUnderscore},
		{"ids with a colon are listed", "whatever a thread is called, the list has it under that name", colons},
		{"hostile addresses", "threads and namespaces are any UTF-8; each pair is one of its own, loads its own and is listed as it was given", hostileAddresses},
		{"any address", "however threads and namespaces are spelt, no two addresses are one", anyAddress},
		{"namespaces are apart", "a namespace of a thread is saved, loaded, listed and deleted for itself", namespacesApart},
		{"a thread goes with its namespaces", "deleting a thread deletes every namespace of it, and none of another", threadGoesWhole},
		{"impossible addresses", "a thread that is empty, and a thread or namespace that is too long or no UTF-8, is refused", impossibleAddresses},
	}
}

func slashAndUnderscore(f *fixture) {
	for _, pair := range [][2]string{{"a/b", "a_b"}, {"日本", "中国"}, {"a:b", "a_b2"}, {"A", "a"}, {"x%2Fy", "x/y"}, {"é", "e\u0301"}} {
		one, two := saver.ThreadKey{Thread: pair[0]}, saver.ThreadKey{Thread: pair[1]}
		f.begin(one, "of one")
		f.absent(two)
		f.begin(two, "of two")
		f.same("the one's", f.get(one).Messages[0], said("of one"))
		f.same("the other's", f.get(two).Messages[0], said("of two"))
		f.ok(f.saver.Delete(f.Context(), one))
		f.exists(two, true)
	}
}

func colons(f *fixture) {
	var want []saver.ThreadKey
	for _, id := range []string{"user:42", "thread/with:special*chars?", ":", "a:b:c", "a=b", "with space", "#1"} {
		want = append([]saver.ThreadKey{{Thread: id}}, want...)
		f.begin(want[0], "x")
	}
	f.same("the list", f.saved(""), want)
}

func hostileAddresses(f *fixture) {
	all := []saver.ThreadKey{{Thread: "a:b"}, {Thread: "a", Namespace: "b"}, {Thread: "a:b", Namespace: "c"}, {Thread: "a", Namespace: "b:c"},
		{Thread: "a|b"}, {Thread: "a", Namespace: "|b"}, {Thread: "a\x00", Namespace: "b"}, {Thread: "a", Namespace: "\x00b"}}
	for _, id := range hostile() {
		for _, a := range []saver.ThreadKey{{Thread: id}, {Thread: "t", Namespace: id}, {Thread: id, Namespace: "n"}} {
			if !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	listed := map[string][]saver.ThreadKey{}
	for _, a := range all {
		f.begin(a, a.Thread+" in "+a.Namespace)
		listed[a.Namespace] = append([]saver.ThreadKey{a}, listed[a.Namespace]...)
	}
	for _, a := range all {
		got := f.get(a)
		f.same("the address", got.ThreadKey, a)
		f.same("what it holds", spelt(got.Messages[0]), spelt(said(a.Thread+" in "+a.Namespace)))
	}
	for namespace, want := range listed {
		f.same("the list of a namespace", f.saved(namespace), want)
	}
}

func anyAddress(f *fixture) {
	held := map[saver.ThreadKey]string{}
	spell := rapid.StringOfN(rapid.SampledFrom([]rune("aA_/:%|.\\\x00\x1f é*")), 0, 4, -1)
	f.check(func(t *rapid.T) {
		a := saver.ThreadKey{Thread: "t" + spell.Draw(t, "thread"), Namespace: spell.Draw(t, "namespace")}
		if text, ok := held[a]; ok {
			f.same("what it holds", f.get(a).Messages[0], said(text))
			return
		}
		f.absent(a)
		held[a] = fmt.Sprintf("%q", a)
		f.begin(a, held[a])
	})
	for a, text := range held {
		f.same("what it holds", f.get(a).Messages[0], said(text))
	}
}

func namespacesApart(f *fixture) {
	root := f.begin(f.address(), "root")
	part := root.ThreadKey
	part.Namespace = "child:abc"
	f.absent(part)
	child := f.begin(part, "child")
	f.same("the child's first step", child.Step, 1)
	other := f.begin(saver.ThreadKey{Thread: f.id("thread"), Namespace: "child:abc"}, "another's child")
	child = f.save(more(child, "more"))
	f.stands(root)
	f.stands(child)
	f.same("the root's list", f.saved(""), []saver.ThreadKey{root.ThreadKey})
	f.same("the namespace's list", f.saved("child:abc"), []saver.ThreadKey{child.ThreadKey, other.ThreadKey})
	f.same("another namespace's", f.saved("child"), []saver.ThreadKey(nil))
	f.ok(f.saver.Delete(f.Context(), part))
	f.absent(part)
	f.stands(root)
	f.stands(other)
}

func threadGoesWhole(f *fixture) {
	a := f.address()
	f.begin(a, "root")
	var parts []saver.ThreadKey
	for _, name := range []string{"one", "two", "a:b"} {
		parts = append(parts, saver.ThreadKey{Thread: a.Thread, Namespace: name})
		f.begin(parts[len(parts)-1], name)
	}
	other := f.begin(saver.ThreadKey{Thread: a.Thread + ":one"}, "another")
	others := f.begin(saver.ThreadKey{Thread: a.Thread + ":one", Namespace: "one"}, "another's")
	f.ok(f.saver.Delete(f.Context(), a))
	f.absent(a)
	for _, p := range parts {
		f.absent(p)
		f.same("the list", slices.Contains(f.saved(p.Namespace), p), false)
	}
	f.stands(other)
	f.stands(others)
}

func impossibleAddresses(f *fixture) {
	for _, id := range []string{"", strings.Repeat("x", segno.MaxID+1), "\xff", "a\xc3"} {
		for _, a := range []saver.ThreadKey{{Thread: id}, {Thread: id, Namespace: "part"}, {Thread: "t", Namespace: id}} {
			if a == (saver.ThreadKey{Thread: "t"}) {
				continue
			}
			_, err := f.saver.Save(f.Context(), more(saver.Snapshot{ThreadKey: a}, "x"))
			f.kind(err, segno.KindInvalid)
			if ok, _ := f.saver.Exists(f.Context(), a); ok {
				f.Fatalf("%q exists", a)
			}
		}
	}
	f.same("the list", f.saved(""), []saver.ThreadKey(nil))
}
