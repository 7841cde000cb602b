package delta

import (
	"slices"
	"sync"

	"github.com/millrace/millrace/informer"
)

// UndeltaStore is a reflector's target that pushes the complete set of objects, ordered by key, after each change. So a
// receiver that has missed a push misses nothing once it has the next one. Pushes are serial, in the order of the
// changes. The slice belongs to the receiver; the objects are shared.
type UndeltaStore[T any] struct {
	*informer.Store[T]
	push func(objects []T)

	order sync.Mutex // held from a change to the end of its push
}

var _ informer.Target[any] = (*UndeltaStore[any])(nil)

// NewUndeltaStore returns an empty store that pushes its content.
func NewUndeltaStore[T any](push func(objects []T), options informer.StoreOptions[T]) *UndeltaStore[T] {
	return &UndeltaStore[T]{Store: informer.NewStore(options), push: push}
}

func (u *UndeltaStore[T]) after(change error) error {
	if change == nil {
		u.push(slices.Collect(u.List()))
	}
	return change
}

// Add adds or replaces an object and pushes.
func (u *UndeltaStore[T]) Add(object T) error {
	u.order.Lock()
	defer u.order.Unlock()
	return u.after(u.Store.Add(object))
}

// Update adds or replaces an object and pushes.
func (u *UndeltaStore[T]) Update(object T) error { return u.Add(object) }

// Delete removes an object and pushes.
func (u *UndeltaStore[T]) Delete(object T) error {
	u.order.Lock()
	defer u.order.Unlock()
	return u.after(u.Store.Delete(object))
}

// Replace replaces all objects and pushes once.
func (u *UndeltaStore[T]) Replace(objects []T, resourceVersion string) error {
	u.order.Lock()
	defer u.order.Unlock()
	return u.after(u.Store.Replace(objects, resourceVersion))
}
