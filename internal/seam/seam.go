// Package seam lets the tests of this module wrap parts of a cluster that they start. A context carries functions that
// wrap a part, such as the store; Start calls them when it builds that part.
//
// It is for tests only: the product wraps nothing.
package seam

import "context"

// key is the context key of the wrapper for parts of type T.
type key[T any] struct{}

// Around returns a context in which parts of type T are wrapped.
func Around[T any](ctx context.Context, wrap func(T) T) context.Context {
	return context.WithValue(ctx, key[T]{}, wrap)
}

// Wrap returns the part, wrapped if ctx has a wrapper for it.
func Wrap[T any](ctx context.Context, part T) T {
	if wrap, ok := ctx.Value(key[T]{}).(func(T) T); ok {
		return wrap(part)
	}
	return part
}
