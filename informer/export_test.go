package informer

import "github.com/millrace/millrace/informer/internal/wire"

// HandlersTogether returns how many handlers are called in one goroutine.
func HandlersTogether[T any](s *Shared[T]) int { return s.handlers.SharedCount() }

// KeptEncoded reports whether the informer keeps an object encoded.
func KeptEncoded[T any](s *Shared[T], key Key) bool { return s.lookup(key).Packed != nil }

// WithEncoded returns a source that can deliver its objects encoded.
func WithEncoded[T any](source Source[T], encoded Source[*wire.Object]) Source[T] {
	return &inBothForms[T]{Source: source, other: encoded}
}

type inBothForms[T any] struct {
	Source[T]
	other Source[*wire.Object]
}

func (s *inBothForms[T]) encoded(bool) (Source[*wire.Object], bool) { return s.other, true }

// EncodedOf returns a source of the same objects in encoded form.
func EncodedOf[T Object](source Source[T], dropManagedFields bool) (Source[*wire.Object], bool) {
	return encodedOf(source, dropManagedFields)
}
