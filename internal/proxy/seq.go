package proxy

import "iter"

// collect returns the values of a query that keep accepts, nil for all.
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

// find returns the first value of a query that is accepts, nil for any. It returns nil if
// the query has none.
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
