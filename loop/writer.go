package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/millrace/millrace/informer"
)

// Writer writes objects of one kind, and notes what it writes: the loop's next
// Sync of the same key begins when the caches show it. A Sync passes on the
// context that it was given. Outside of a Sync nothing is noted.
type Writer[T informer.Object] struct {
	resource informer.Resource[T]
	cache    *informer.Shared[T]
	manager  string

	mu      sync.Mutex
	applied map[Key]application // guarded by mu
}

// application is what was applied last, and the version that it led to.
type application struct {
	hash    uint64
	version string
}

// NewWriter returns a writer for a kind whose objects the cache shows. Applied
// fields are owned in the name of the manager.
func NewWriter[T informer.Object](resource informer.Resource[T], cache *informer.Shared[T], manager string) *Writer[T] {
	return &Writer[T]{resource: resource, cache: cache, manager: manager, applied: map[Key]application{}}
}

// syncing is what a Sync's context carries.
type syncing struct {
	writes *Writes
	key    Key
}

type syncingKey struct{}

// wrote notes a write of the Sync that the context belongs to.
func (w *Writer[T]) wrote(ctx context.Context, object T, err error) (T, error) {
	if s, ok := ctx.Value(syncingKey{}).(syncing); ok && err == nil {
		s.writes.Wrote(s.key, w.cache, object.GetResourceVersion())
	}
	return object, err
}

func (w *Writer[T]) in(namespace string) informer.Resource[T] {
	return w.resource.InNamespace(namespace)
}

// Create creates an object.
func (w *Writer[T]) Create(ctx context.Context, object T) (T, error) {
	made, err := w.in(object.GetNamespace()).Create(ctx, object, metav1.CreateOptions{FieldManager: w.manager})
	return w.wrote(ctx, made, err)
}

// Update writes an object over the one of its name. With a resource version in it, only that version is replaced.
func (w *Writer[T]) Update(ctx context.Context, object T) (T, error) {
	made, err := w.in(object.GetNamespace()).Update(ctx, object, metav1.UpdateOptions{FieldManager: w.manager})
	return w.wrote(ctx, made, err)
}

// UpdateStatus writes an object's status.
func (w *Writer[T]) UpdateStatus(ctx context.Context, object T) (T, error) {
	made, err := w.in(object.GetNamespace()).SubResource("status").Update(ctx, object, metav1.UpdateOptions{FieldManager: w.manager})
	return w.wrote(ctx, made, err)
}

// Patch changes an object.
func (w *Writer[T]) Patch(ctx context.Context, key Key, kind types.PatchType, patch []byte) (T, error) {
	made, err := w.in(key.Namespace).Patch(ctx, key.Name, kind, patch, metav1.PatchOptions{FieldManager: w.manager})
	return w.wrote(ctx, made, err)
}

// Delete deletes this very object, and no other one of its name.
func (w *Writer[T]) Delete(ctx context.Context, object T) error {
	uid := object.GetUID()
	options := metav1.DeleteOptions{}
	if uid != "" {
		options.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	err := w.in(object.GetNamespace()).Delete(ctx, object.GetName(), options)
	if s, ok := ctx.Value(syncingKey{}).(syncing); ok && err == nil {
		Removed(s.writes, s.key, w.cache, object)
	}
	return err
}

// Ensure creates or updates an object. The function gets a copy of what the
// cache shows, or an empty object with its name, and makes of it what shall be.
// Nothing is written if it changes nothing.
func (w *Writer[T]) Ensure(ctx context.Context, key Key, change func(object T, exists bool) error) (T, error) {
	have, exists := w.cache.Lookup(key)
	want := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
	if exists {
		want = have.DeepCopyObject().(T)
	} else {
		want.SetNamespace(key.Namespace)
		want.SetName(key.Name)
	}
	if err := change(want, exists); err != nil {
		return want, err
	}
	switch {
	case !exists:
		return w.Create(ctx, want)
	case equality.Semantic.DeepEqual(have, want):
		return have, nil
	}
	return w.Update(ctx, want)
}

// Apply makes the fields that are set in an object what they are there, by
// server-side apply; it takes them over from other managers, and drops those that it
// applied earlier and that are not set any more. The status is left out. Nothing is
// sent while the cache shows the very version that the same Apply led to.
func (w *Writer[T]) Apply(ctx context.Context, object T) (T, error) {
	body, err := applyBody(object)
	if err != nil {
		return object, err
	}
	key, hash := informer.KeyOf(object), maphash.Bytes(hashSeed, body)
	have, exists := w.cache.Lookup(key)
	if exists && w.last(key) == (application{hash, have.GetResourceVersion()}) {
		return have, nil
	}
	force := true
	made, err := w.in(key.Namespace).Patch(ctx, key.Name, types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: w.manager, Force: &force})
	if err == nil {
		w.remember(key, application{hash, made.GetResourceVersion()})
	}
	return w.wrote(ctx, made, err)
}

var hashSeed = maphash.MakeSeed()

func (w *Writer[T]) last(key Key) application {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.applied[key]
}

// maxApplied bounds what is remembered. What is forgotten is applied once more.
const maxApplied = 1 << 16

func (w *Writer[T]) remember(key Key, a application) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.applied) >= maxApplied {
		clear(w.applied)
	}
	w.applied[key] = a
}

// applyBody is an object as server-side apply takes it: with its kind, and without what only the server sets.
func applyBody[T informer.Object](object T) ([]byte, error) {
	kind, err := kindOfObject(object)
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", informer.KeyOf(object), err)
	}
	var tree map[string]any
	if err := json.Unmarshal(encoded, &tree); err != nil {
		return nil, fmt.Errorf("encode %s: %w", informer.KeyOf(object), err)
	}
	tree["apiVersion"], tree["kind"] = kind.ToAPIVersionAndKind()
	delete(tree, "status")
	if meta, ok := tree["metadata"].(map[string]any); ok {
		for _, field := range []string{"creationTimestamp", "managedFields", "resourceVersion", "uid", "generation"} {
			delete(meta, field)
		}
	}
	return json.Marshal(tree)
}

// kindOfObject returns an object's kind: what it says itself, or else what client-go knows of its type.
func kindOfObject(object informer.Object) (schema.GroupVersionKind, error) {
	if kind := object.GetObjectKind().GroupVersionKind(); kind.Kind != "" {
		return kind, nil
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("the kind of %s is not set: %w", informer.KeyOf(object), err)
	}
	return kinds[0], nil
}
