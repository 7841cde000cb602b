// Package seam lets the proofs of this module reach into a cluster that they start: a context carries functions that wrap a part
// of the cluster, such as its store, and Start asks for them as it builds that part.
//
// It is for tests. Nothing in the product wraps anything.
package seam

import "context"

// key finds the wrapper of parts of type T in a context.
type key[T any] struct{}

// Around returns a context in which parts of type T are wrapped.
func Around[T any](ctx context.Context, wrap func(T) T) context.Context {
	return context.WithValue(ctx, key[T]{}, wrap)
}

// Wrap is the part as ctx wants it: wrapped, or as it is.
func Wrap[T any](ctx context.Context, part T) T {
	if wrap, ok := ctx.Value(key[T]{}).(func(T) T); ok {
		return wrap(part)
	}
	return part
}
