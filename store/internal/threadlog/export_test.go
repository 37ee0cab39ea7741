package threadlog

import "github.com/dalsegno/segno/internal/store/notify"

// NotifierOf returns the notifier of a store.
func NotifierOf(s *Store) *notify.Notifier { return &s.notifier }
