package secret

// keywords is an Aho-Corasick automaton: it reads a text once and reports the places where
// any of many words ends, without regard to the case of ASCII letters.
type keywords struct {
	class   [256]uint16 // class of a byte; bytes of class 0 are in no word
	next    []uint32    // state + class → state; a state is a multiple of width
	width   uint32
	reports uint32   // states from here on end a word
	ends    [][]word // words of a reporting state, by (state-reports)/width
}

// A word is a keyword of rules; index is its place in the list that built the automaton.
type word struct {
	index  int
	length int
}

// lower folds the case of an ASCII letter.
func lower(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}

// newKeywords builds the automaton for words, none of which may be empty.
func newKeywords(words []string) *keywords {
	k := &keywords{width: 1}
	for _, w := range words {
		for i := range len(w) {
			if b := lower(w[i]); k.class[b] == 0 {
				k.class[b] = uint16(k.width)
				k.width++
			}
		}
	}
	for b := byte('a'); b <= 'z'; b++ {
		k.class[b-'a'+'A'] = k.class[b]
	}
	nodes, order := k.trie(words)
	k.renumber(nodes, order)
	return k
}

type node struct {
	next []int // by class; 0 means no edge, because no edge goes back to the root
	fail int
	ends []word
}

// trie builds the tree of all words, completes its edges with those of each node's longest
// proper suffix, and returns the nodes and their breadth-first order.
func (k *keywords) trie(words []string) (nodes []node, order []int) {
	add := func() int {
		nodes = append(nodes, node{next: make([]int, k.width)})
		return len(nodes) - 1
	}
	add()
	for i, w := range words {
		at := 0
		for j := range len(w) {
			c := k.class[w[j]]
			if nodes[at].next[c] == 0 {
				n := add()
				nodes[at].next[c] = n
			}
			at = nodes[at].next[c]
		}
		nodes[at].ends = append(nodes[at].ends, word{i, len(w)})
	}
	order = []int{0}
	for head := 0; head < len(order); head++ {
		at := order[head]
		for c, to := range nodes[at].next {
			suffix := 0
			if at != 0 {
				suffix = nodes[nodes[at].fail].next[c]
			}
			if to == 0 {
				nodes[at].next[c] = suffix
				continue
			}
			nodes[to].fail = suffix
			nodes[to].ends = append(nodes[to].ends, nodes[suffix].ends...)
			order = append(order, to)
		}
	}
	return nodes, order
}

// renumber gives the reporting states the highest numbers, so that the loop over a text
// needs one comparison a byte.
func (k *keywords) renumber(nodes []node, order []int) {
	number := make([]uint32, len(nodes))
	n := uint32(0)
	for _, reporting := range []bool{false, true} {
		if reporting {
			k.reports = n * k.width
		}
		for _, at := range order {
			if (len(nodes[at].ends) > 0) == reporting {
				number[at] = n * k.width
				n++
			}
		}
	}
	k.next = make([]uint32, n*k.width)
	k.ends = make([][]word, n-k.reports/k.width)
	for at, nd := range nodes {
		for c, to := range nd.next {
			k.next[number[at]+uint32(c)] = number[to]
		}
		if number[at] >= k.reports {
			k.ends[(number[at]-k.reports)/k.width] = nd.ends
		}
	}
}

// find reads text from a state on. It calls found with the offset behind each place where words end,
// and returns the state behind the text. The first state is 0.
func (k *keywords) find(state uint32, text []byte, found func(end int, words []word)) uint32 {
	next, class, reports := k.next, &k.class, k.reports
	for i, b := range text {
		state = next[state+uint32(class[b])]
		if state >= reports {
			found(i+1, k.ends[(state-reports)/k.width])
		}
	}
	return state
}
