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
	// RefuseStreaming makes the source refuse streamed lists, as servers do that do not support them. Set it before
	// use.
	RefuseStreaming bool
	// OmitInitialEventsEnd makes it accept streamed lists but never send the bookmark that marks them as complete. Set
	// it before use.
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
func (s *Source[T]) Add(object T) T { return s.write(object, true) }

// Modify changes an object, or creates it.
func (s *Source[T]) Modify(object T) T { return s.write(object, false) }

func (s *Source[T]) write(object T, create bool) T {
	object = clone(object)
	s.mu.Lock()
	defer s.mu.Unlock()
	key := informer.KeyOf(object)
	if create {
		s.deleteLocked(key)
	}
	old, had := s.objects[key]
	s.revision++
	object.SetResourceVersion(strconv.FormatUint(s.revision, 10))
	if had && !create && object.GetUID() == "" {
		object.SetUID(old.GetUID())
	}
	if object.GetUID() == "" {
		s.uids++
		object.SetUID(types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", s.uids)))
	}
	s.objects[key] = object
	s.history = append(s.history, record[T]{revision: s.revision, old: old, had: had, new: object, has: true})
	s.changed.Raise()
	return clone(object)
}

// Delete deletes the object with the given object's key and reports whether it existed.
func (s *Source[T]) Delete(object T) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deleteLocked(informer.KeyOf(object))
}

func (s *Source[T]) deleteLocked(key informer.Key) bool {
	old, had := s.objects[key]
	if !had {
		return false
	}
	s.revision++
	delete(s.objects, key)
	s.history = append(s.history, record[T]{revision: s.revision, old: old, had: true})
	s.changed.Raise()
	return true
}

// Objects returns all objects, ordered by key.
func (s *Source[T]) Objects() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sortedLocked(s.objects)
}

// ResourceVersion returns the newest resource version.
func (s *Source[T]) ResourceVersion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strconv.FormatUint(s.revision, 10)
}

// Compact drops the history: watches from earlier versions, and continue tokens of earlier lists, expire.
func (s *Source[T]) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted = s.revision
	s.history = nil
	clear(s.snapshots)
}

// EndWatches ends all watches with an error, as a broken connection does, or without one if it is nil.
func (s *Source[T]) EndWatches(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		w.cut, w.cause = true, err
	}
	s.changed.Raise()
}

// SendBookmarks sends a bookmark with the newest resource version to each watch.
func (s *Source[T]) SendBookmarks() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		w.bookmark = w.bookmarks
	}
	s.changed.Raise()
}

// Fail makes the next requests with the verb "list" or "watch" fail, each with one of these errors.
func (s *Source[T]) Fail(verb string, errs ...error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing[verb] = append(s.failing[verb], errs...)
}

// Requests returns the options of all requests with the verb "list" or "watch" so far.
func (s *Source[T]) Requests(verb string) []metav1.ListOptions {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests[verb])
}

func (s *Source[T]) beginLocked(ctx context.Context, verb string, options metav1.ListOptions) error {
	s.requests[verb] = append(s.requests[verb], options)
	if errs := s.failing[verb]; len(errs) > 0 {
		s.failing[verb] = errs[1:]
		return errs[0]
	}
	return ctx.Err()
}

// List implements Source.
func (s *Source[T]) List(ctx context.Context, options metav1.ListOptions) ([]T, metav1.ListMeta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.beginLocked(ctx, "list", options); err != nil {
		return nil, metav1.ListMeta{}, err
	}
	selected, err := s.selection(options)
	if err != nil {
		return nil, metav1.ListMeta{}, err
	}
	moment, after, err := s.snapshotLocked(options)
	if err != nil {
		return nil, metav1.ListMeta{}, err
	}
	objects := s.objects
	if moment != s.revision {
		objects = s.snapshots[moment]
	}
	items := slices.DeleteFunc(s.sortedLocked(objects), func(object T) bool {
		return informer.KeyOf(object).Compare(after) <= 0 || !selected(object)
	})
	list := metav1.ListMeta{ResourceVersion: strconv.FormatUint(moment, 10)}
	if limit := int(options.Limit); limit > 0 && len(items) > limit {
		rest := int64(len(items) - limit)
		items, list.RemainingItemCount = items[:limit], &rest
		list.Continue = list.ResourceVersion + " " + informer.KeyOf(items[limit-1]).String()
		if s.snapshots[moment] == nil {
			s.snapshots[moment] = maps.Clone(objects)
		}
	}
	return items, list, nil
}

// snapshotLocked returns the version that a list shows and the key after which it starts.
func (s *Source[T]) snapshotLocked(options metav1.ListOptions) (uint64, informer.Key, error) {
	if options.Continue == "" {
		if asked := state.ParseRevision(options.ResourceVersion); asked > s.revision {
			return 0, informer.Key{}, tooLarge(asked, s.revision)
		}
		return s.revision, informer.Key{}, nil
	}
	version, name, _ := strings.Cut(options.Continue, " ")
	after, err := informer.ParseKey(name)
	if err != nil {
		return 0, informer.Key{}, apierrors.NewBadRequest("continue key is not valid: " + err.Error())
	}
	moment := state.ParseRevision(version)
	if _, known := s.snapshots[moment]; !known && moment != s.revision {
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

func (s *Source[T]) sortedLocked(objects map[informer.Key]T) []T {
	keys := slices.SortedFunc(maps.Keys(objects), informer.Key.Compare)
	sorted := make([]T, len(keys))
	for i, key := range keys {
		sorted[i] = clone(objects[key])
	}
	return sorted
}

func (s *Source[T]) selection(options metav1.ListOptions) (func(T) bool, error) {
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
		if s.Fields != nil {
			maps.Copy(set, s.Fields(object))
		}
		return byLabel.Matches(labels.Set(object.GetLabels())) && byField.Matches(set)
	}, nil
}

// Watch implements Source.
func (s *Source[T]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Stream[T], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.beginLocked(ctx, "watch", options); err != nil {
		return nil, err
	}
	selected, err := s.selection(options)
	if err != nil {
		return nil, err
	}
	w := &watchStream[T]{source: s, selected: selected, bookmarks: options.AllowWatchBookmarks, position: state.ParseRevision(options.ResourceVersion)}
	if options.TimeoutSeconds != nil {
		w.deadline = time.Now().Add(time.Duration(*options.TimeoutSeconds) * time.Second)
	}
	if err := s.positionLocked(w, options); err != nil {
		return nil, err
	}
	s.watches[w] = struct{}{}
	return w, nil
}

// positionLocked sets the position in the history at which a watch starts.
func (s *Source[T]) positionLocked(w *watchStream[T], options metav1.ListOptions) error {
	initial := options.SendInitialEvents
	if initial != nil && s.RefuseStreaming {
		return apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "ListOptions"}, "", nil)
	}
	if w.position > s.revision {
		return tooLarge(w.position, s.revision)
	}
	wanted := w.position == 0
	if initial != nil {
		wanted = *initial
	}
	if !wanted {
		if w.position == 0 {
			w.position = s.revision
		}
		return nil
	}
	w.position = s.revision
	for _, object := range s.sortedLocked(s.objects) {
		if w.selected(object) {
			w.pending = append(w.pending, watch.Event[T]{Type: watch.Added, Object: object})
		}
	}
	if initial != nil && w.bookmarks && !s.OmitInitialEventsEnd {
		end := w.bookmarkAt(s.revision)
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
