// Package informertest has in-memory sources for tests of controllers and informers, without a server.
package informertest

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/internal/signal"
	"github.com/millrace/millrace/informer/internal/state"
	"github.com/millrace/millrace/watch"
)

// Source is a source in memory with the semantics of an API server. It counts resource versions, keeps a history of
// changes, serves watches from any version in the history and answers 410 for others, lists in pages that show one
// moment, streams initial lists, sends bookmarks, and selects by label and field. A test can make it fail in the ways
// in which a server fails. It is safe for use by several goroutines. NewSource makes one.
//
// Objects are copied when they are written and when they are read.
type Source[T informer.Object] struct {
	// Fields returns the fields for field selectors, besides metadata.name and metadata.namespace. Set it before use.
	Fields func(T) fields.Set
	// RefuseStreaming makes the source refuse streamed lists, as servers do that do not support them. Set it before use.
	RefuseStreaming bool
	// OmitInitialEventsEnd makes it accept streamed lists but never send the bookmark that marks them as complete. Set it
	// before use.
	OmitInitialEventsEnd bool

	mu        sync.Mutex
	objects   map[informer.Key]T              // guarded by mu
	history   []record[T]                     // guarded by mu, in the order of revisions
	revision  uint64                          // guarded by mu
	compacted uint64                          // guarded by mu: watches can start from here or later
	snapshots map[uint64]map[informer.Key]T   // guarded by mu: states that clients are reading pages of
	changed   signal.Signal                   // raised when a watch may have an event
	watches   map[*watchStream[T]]struct{}    // guarded by mu
	uids      int                             // guarded by mu
	failing   map[string][]error              // guarded by mu: errors to answer with, by verb
	requests  map[string][]metav1.ListOptions // guarded by mu
}

type record[T any] struct {
	revision uint64
	old, new T
	had, has bool // whether there are old and new
}

// NewSource returns a source with these objects.
func NewSource[T informer.Object](objects ...T) *Source[T] {
	f := &Source[T]{
		objects: map[informer.Key]T{}, snapshots: map[uint64]map[informer.Key]T{}, watches: map[*watchStream[T]]struct{}{},
		failing: map[string][]error{}, requests: map[string][]metav1.ListOptions{}, revision: 1, compacted: 1,
	}
	for _, object := range objects {
		f.Add(object)
	}
	return f
}

// Add creates an object, deletes an existing one with that name first, and returns the object with a resource version
// and a UID, as a server does.
func (f *Source[T]) Add(object T) T { return f.write(object, true) }

// Modify changes an object, or creates it.
func (f *Source[T]) Modify(object T) T { return f.write(object, false) }

func (f *Source[T]) write(object T, create bool) T {
	object = clone(object)
	f.mu.Lock()
	defer f.mu.Unlock()
	key := informer.KeyOf(object)
	if create {
		f.deleteLocked(key)
	}
	old, had := f.objects[key]
	f.revision++
	object.SetResourceVersion(strconv.FormatUint(f.revision, 10))
	if had && !create && object.GetUID() == "" {
		object.SetUID(old.GetUID())
	}
	if object.GetUID() == "" {
		f.uids++
		object.SetUID(types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", f.uids)))
	}
	f.objects[key] = object
	f.history = append(f.history, record[T]{revision: f.revision, old: old, had: had, new: object, has: true})
	f.changed.Raise()
	return clone(object)
}

// Delete deletes the object with the given object's key and reports whether it existed.
func (f *Source[T]) Delete(object T) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.deleteLocked(informer.KeyOf(object))
}

func (f *Source[T]) deleteLocked(key informer.Key) bool {
	old, had := f.objects[key]
	if !had {
		return false
	}
	f.revision++
	delete(f.objects, key)
	f.history = append(f.history, record[T]{revision: f.revision, old: old, had: true})
	f.changed.Raise()
	return true
}

// Objects returns all objects, ordered by key.
func (f *Source[T]) Objects() []T {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sortedLocked(f.objects)
}

// ResourceVersion returns the newest resource version.
func (f *Source[T]) ResourceVersion() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strconv.FormatUint(f.revision, 10)
}

// Compact drops the history: watches from earlier versions, and continue tokens of earlier lists, expire.
func (f *Source[T]) Compact() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.compacted = f.revision
	f.history = nil
	clear(f.snapshots)
}

// EndWatches ends all watches with an error, as a broken connection does, or without one if it is nil.
func (f *Source[T]) EndWatches(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.watches {
		w.cut, w.cause = true, err
	}
	f.changed.Raise()
}

// SendBookmarks sends a bookmark with the newest resource version to each watch.
func (f *Source[T]) SendBookmarks() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.watches {
		w.bookmark = w.bookmarks
	}
	f.changed.Raise()
}

// Fail makes the next requests with the verb "list" or "watch" fail, each with one of these errors.
func (f *Source[T]) Fail(verb string, errs ...error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failing[verb] = append(f.failing[verb], errs...)
}

// Requests returns the options of all requests with the verb "list" or "watch" so far.
func (f *Source[T]) Requests(verb string) []metav1.ListOptions {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests[verb])
}

func (f *Source[T]) beginLocked(ctx context.Context, verb string, options metav1.ListOptions) error {
	f.requests[verb] = append(f.requests[verb], options)
	if errs := f.failing[verb]; len(errs) > 0 {
		f.failing[verb] = errs[1:]
		return errs[0]
	}
	return ctx.Err()
}

// List implements Source.
func (f *Source[T]) List(ctx context.Context, options metav1.ListOptions) ([]T, metav1.ListMeta, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.beginLocked(ctx, "list", options); err != nil {
		return nil, metav1.ListMeta{}, err
	}
	selected, err := f.selection(options)
	if err != nil {
		return nil, metav1.ListMeta{}, err
	}
	moment, after, err := f.snapshotLocked(options)
	if err != nil {
		return nil, metav1.ListMeta{}, err
	}
	objects := f.objects
	if moment != f.revision {
		objects = f.snapshots[moment]
	}
	items := slices.DeleteFunc(f.sortedLocked(objects), func(object T) bool {
		return informer.KeyOf(object).Compare(after) <= 0 || !selected(object)
	})
	list := metav1.ListMeta{ResourceVersion: strconv.FormatUint(moment, 10)}
	if limit := int(options.Limit); limit > 0 && len(items) > limit {
		rest := int64(len(items) - limit)
		items, list.RemainingItemCount = items[:limit], &rest
		list.Continue = list.ResourceVersion + " " + informer.KeyOf(items[limit-1]).String()
		if f.snapshots[moment] == nil {
			f.snapshots[moment] = maps.Clone(objects)
		}
	}
	return items, list, nil
}

// snapshotLocked returns the version that a list shows and the key after which it starts.
func (f *Source[T]) snapshotLocked(options metav1.ListOptions) (uint64, informer.Key, error) {
	if options.Continue == "" {
		if asked := state.ParseRevision(options.ResourceVersion); asked > f.revision {
			return 0, informer.Key{}, tooLarge(asked, f.revision)
		}
		return f.revision, informer.Key{}, nil
	}
	version, name, _ := strings.Cut(options.Continue, " ")
	after, err := informer.ParseKey(name)
	if err != nil {
		return 0, informer.Key{}, apierrors.NewBadRequest("continue key is not valid: " + err.Error())
	}
	moment := state.ParseRevision(version)
	if _, known := f.snapshots[moment]; !known && moment != f.revision {
		return 0, informer.Key{}, apierrors.NewResourceExpired("The provided continue parameter is too old " +
			"to display a consistent list result. You can start a new list without the continue parameter.")
	}
	return moment, after, nil
}

func tooLarge(asked, current uint64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", asked, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{
		{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return err
}

func (f *Source[T]) sortedLocked(objects map[informer.Key]T) []T {
	keys := slices.SortedFunc(maps.Keys(objects), informer.Key.Compare)
	sorted := make([]T, len(keys))
	for i, key := range keys {
		sorted[i] = clone(objects[key])
	}
	return sorted
}

func (f *Source[T]) selection(options metav1.ListOptions) (func(T) bool, error) {
	byLabel, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(options.FieldSelector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return func(object T) bool {
		set := fields.Set{"metadata.name": object.GetName(), "metadata.namespace": object.GetNamespace()}
		if f.Fields != nil {
			maps.Copy(set, f.Fields(object))
		}
		return byLabel.Matches(labels.Set(object.GetLabels())) && byField.Matches(set)
	}, nil
}

// Watch implements Source.
func (f *Source[T]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Stream[T], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.beginLocked(ctx, "watch", options); err != nil {
		return nil, err
	}
	selected, err := f.selection(options)
	if err != nil {
		return nil, err
	}
	w := &watchStream[T]{source: f, selected: selected, bookmarks: options.AllowWatchBookmarks, position: state.ParseRevision(options.ResourceVersion)}
	if options.TimeoutSeconds != nil {
		w.deadline = time.Now().Add(time.Duration(*options.TimeoutSeconds) * time.Second)
	}
	if err := f.positionLocked(w, options); err != nil {
		return nil, err
	}
	f.watches[w] = struct{}{}
	return w, nil
}

// positionLocked sets the position in the history at which a watch starts.
func (f *Source[T]) positionLocked(w *watchStream[T], options metav1.ListOptions) error {
	initial := options.SendInitialEvents
	if initial != nil && f.RefuseStreaming {
		return apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "ListOptions"}, "", nil)
	}
	if w.position > f.revision {
		return tooLarge(w.position, f.revision)
	}
	wanted := w.position == 0
	if initial != nil {
		wanted = *initial
	}
	if !wanted {
		if w.position == 0 {
			w.position = f.revision
		}
		return nil
	}
	w.position = f.revision
	for _, object := range f.sortedLocked(f.objects) {
		if w.selected(object) {
			w.pending = append(w.pending, watch.Event[T]{Type: watch.Added, Object: object})
		}
	}
	if initial != nil && w.bookmarks && !f.OmitInitialEventsEnd {
		end := w.bookmarkAt(f.revision)
		end.Object.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		w.pending = append(w.pending, end)
	}
	return nil
}

// expiredError is a server's error for a version that is not in the history any more.
func expiredError(position, oldest uint64) error {
	err := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", position, oldest))
	err.ErrStatus.Code = http.StatusGone
	return err
}

func clone[T informer.Object](object T) T { return object.DeepCopyObject().(T) }
