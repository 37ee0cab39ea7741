package proxy

import "iter"

// collect returns the values of a query that keep accepts. If keep is nil, it returns all
// values.
func collect[T any](seq iter.Seq2[T, error], keep func(*T) bool) (all []T, err error) {
	for v, err := range seq {
		if err != nil {
			return nil, err
		}
		if keep == nil || keep(&v) {
			all = append(all, v)
		}
	}
	return all, nil
}

// find returns the first value for which is returns true, or the first value of all if is
// is nil. It returns nil if there is none.
func find[T any](seq iter.Seq2[T, error], is func(*T) bool) (*T, error) {
	for v, err := range seq {
		if err != nil {
			return nil, err
		}
		if is == nil || is(&v) {
			return &v, nil
		}
	}
	return nil, nil
}
