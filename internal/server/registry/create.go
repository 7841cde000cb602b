package registry

import (
	"context"
	"errors"
	"strconv"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// WriteOptions go with every change.
type WriteOptions struct {
	// Face is how the caller speaks of the kind; nil is the kind's own.
	Face *resource.Face
	// Manager is on whose behalf fields are tracked; empty tracks nothing.
	Manager string
	DryRun  bool
	// Asked are the options as the caller gave them.
	Asked Asked
	// Warn takes what should be told to the caller.
	Warn func(string)
	// Annotate takes what should stand in the audit event of the request.
	Annotate func(key, value string)
	// AnnotateBodies says that the audit event has bodies, and may be annotated with parts of them.
	AnnotateBodies bool
	// Admitted says that this change is the server's own part of a request that has been admitted as a whole.
	Admitted bool

	// listed is set if the object is deleted as one of a collection.
	listed *listed
}

// Asked are the options of a request that bear upon no change, but that webhooks are told of.
type Asked struct {
	FieldManager, FieldValidation string
}

func (o WriteOptions) warn(all []string) {
	if o.Warn == nil {
		return
	}
	for _, w := range all {
		o.Warn(w)
	}
}

// Stored is an object together with the bytes that were stored for it.
type Stored struct {
	Object resource.Object
	Entry  store.Entry
	gone   bool // the update has deleted the object
}

const (
	suffixLength   = 5
	longestBase    = 63 - suffixLength
	generatedTries = 8
)

// Create stores a new object. Default has been called on it.
func (s *Storage) Create(ctx context.Context, namespace string, o resource.Object, opt WriteOptions) (*Stored, error) {
	if err := s.adoptNamespace(o, namespace); err != nil {
		return nil, err
	}
	o.SetDeletionTimestamp(nil)
	o.SetDeletionGracePeriodSeconds(nil)
	if err := s.track(opt, "", nil, o); err != nil {
		return nil, err
	}
	change := &Change{Operation: Create, Kind: s.kind, Namespace: namespace, Name: o.GetName(), Object: o, WriteOptions: opt}
	if err := s.registry.mutate(ctx, change); err != nil {
		return nil, err
	}
	o = change.Object
	if err := s.adoptNamespace(o, namespace); err != nil { // it may have been moved
		return nil, err
	}
	s.fillMeta(o)
	generate := o.GetName() == "" && o.GetGenerateName() != ""
	for try := 1; ; try++ {
		if generate {
			o.SetName(generateName(o.GetGenerateName()))
		}
		s.kind.Main.PrepareCreate(ctx, o) // which may copy the name, as into the labels of a Job's pods
		stored, err := s.createOnce(ctx, change, opt)
		if generate && try < generatedTries && apierrors.IsAlreadyExists(err) {
			continue
		}
		return stored, err
	}
}

func (s *Storage) createOnce(ctx context.Context, c *Change, opt WriteOptions) (*Stored, error) {
	o := c.Object
	c.Name = o.GetName()
	// What is allocated is checked with the rest.
	undo, done, err := s.allocate(ctx, o, nil, opt.DryRun)
	if err != nil {
		return nil, err
	}
	stored, err := s.checkAndPut(ctx, c, opt)
	if err != nil {
		undoUnlessStored(undo, err)
		return nil, statusOf(err, s.kind.GroupResource(), c.Name)
	}
	done()
	return s.reread(ctx, stored, "")
}

// undoUnlessStored gives back what was allocated for a change that has failed. If it is unknown whether the change has
// failed, because the store's answer was lost, everything stays allocated: otherwise somebody else would get what the
// object has. If it has failed after all, the allocator finds that out later.
func undoUnlessStored(undo func(), err error) {
	if !isLost(err) {
		undo()
	}
}

func (s *Storage) checkAndPut(ctx context.Context, c *Change, opt WriteOptions) (*Stored, error) {
	o := c.Object
	errs := append(s.registry.check(ctx, c), s.checkMeta(o)...)
	if errs = append(errs, s.kind.Main.Validate(ctx, o)...); len(errs) > 0 {
		return nil, apierrors.NewInvalid(s.groupKind(), o.GetName(), errs)
	}
	opt.warn(s.kind.Main.Warnings(ctx, o, nil))
	if err := s.registry.validate(ctx, c); err != nil {
		return nil, err
	}
	if opt.DryRun {
		return s.put(ctx, c)
	}
	done := s.registry.create(ctx, c)
	stored, err := s.put(ctx, c)
	done(stored)
	return stored, err
}

// put writes a new object, or finds out whether it could be.
func (s *Storage) put(ctx context.Context, c *Change) (*Stored, error) {
	o, dryRun := c.Object, c.DryRun
	key := s.key(o.GetNamespace(), o.GetName())
	if !dryRun { // a dry run may repeat an object that was read, as in Kubernetes
		if n, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64); err == nil && n != 0 {
			return nil, apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
		}
		o.SetResourceVersion("")
	}
	value, err := s.kind.Encode(ctx, o)
	if err != nil {
		return nil, codecError("encode "+key, err)
	}
	if dryRun {
		if err := c.renew(ctx); err != nil {
			return nil, statusOf(err, s.kind.GroupResource(), o.GetName())
		}
		_, err := s.registry.Store.Get(ctx, key, store.GetOptions{})
		switch {
		case err == nil:
			return nil, s.taken(ctx, key, o.GetName())
		case !errors.Is(err, store.ErrNotFound):
			return nil, statusOf(err, s.kind.GroupResource(), o.GetName())
		}
		return &Stored{Object: o, Entry: store.Entry{Key: key, Value: value}}, nil
	}
	rev, err := s.insert(ctx, c, key, value)
	if errors.Is(err, store.ErrExists) {
		return nil, s.taken(ctx, key, o.GetName())
	}
	if err != nil {
		return nil, err // as it is, so that a lost answer is recognized
	}
	s.note(rev)
	o.SetResourceVersion(rev.String())
	return &Stored{Object: o, Entry: store.Entry{Key: key, Value: value, Revision: rev}}, nil
}

// insert stores a new object while what it requires is there.
func (s *Storage) insert(ctx context.Context, c *Change, key string, value []byte) (store.Revision, error) {
	for range maxTries {
		rev, err := s.registry.Store.Create(ctx, key, value, s.kind.TTL, c.conditions()...)
		if !errors.Is(err, store.ErrCondition) {
			return rev, err
		}
		if err := c.renew(ctx); err != nil {
			return 0, err
		}
	}
	return 0, conflict(s.kind.GroupResource(), c.Name)
}

// Follow writes the server's own change of an object that has just been created. Another change that came in between is
// an error.
func (s *Storage) Follow(ctx context.Context, created *Stored, o resource.Object) (*Stored, error) {
	return s.replace(ctx, created.Entry, o, UpdateOptions{})
}

// reread replaces an object that was written by what a reader gets, if these may differ: a scale may have set a field
// that the schema does not know.
func (s *Storage) reread(ctx context.Context, written *Stored, view string) (*Stored, error) {
	if r, ok := s.kind.Representation.(resource.Rewriting); !ok || !r.Rewrites() && view != "scale" {
		return written, nil
	}
	o, err := s.decode(ctx, written.Entry)
	if err != nil {
		return nil, err
	}
	o.SetResourceVersion(written.Object.GetResourceVersion()) // which a dry run does not give
	return &Stored{Object: o, Entry: written.Entry}, nil
}

// taken says that a name is in use, and whether that is about to end.
func (s *Storage) taken(ctx context.Context, key, name string) error {
	taken := apierrors.NewAlreadyExists(s.kind.GroupResource(), name)
	if e, err := s.registry.Store.Get(ctx, key, store.GetOptions{}); err == nil {
		if o, err := s.decode(ctx, e); err == nil && o.GetDeletionTimestamp() != nil {
			taken.ErrStatus.Message = "object is being deleted: " + taken.ErrStatus.Message
		}
	}
	return taken
}

func (s *Storage) adoptNamespace(o resource.Object, namespace string) error {
	if !s.kind.Namespaced {
		namespace = ""
	}
	return AdoptNamespace(o, namespace)
}

// AdoptNamespace gives an object the namespace of its request, which is empty for objects of the whole cluster. It
// refuses an object of another namespace.
func AdoptNamespace(o metav1.Object, namespace string) error {
	if own := o.GetNamespace(); namespace != "" && own != "" && own != namespace {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	o.SetNamespace(namespace)
	return nil
}

func (s *Storage) fillMeta(o resource.Object) {
	o.SetCreationTimestamp(metav1.Time{Time: s.registry.Now().UTC().Truncate(timeGrain)})
	o.SetUID(uuid.NewUUID())
	o.SetSelfLink("")
	if s.kind.Generation {
		o.SetGeneration(1)
	}
}

func generateName(base string) string {
	if len(base) > longestBase {
		base = base[:longestBase]
	}
	return base + rand.String(suffixLength)
}

func (s *Storage) track(opt WriteOptions, view string, old, o resource.Object) error {
	if s.registry.Track == nil || opt.Manager == "" {
		return nil
	}
	return s.registry.Track.Track(opt.face(s.kind), view, old, o, opt.Manager)
}

func (o WriteOptions) face(k *resource.Kind) *resource.Face {
	if o.Face == nil {
		return k.Faces[0]
	}
	return o.Face
}

func nothing() {}

func (s *Storage) allocate(ctx context.Context, o, old resource.Object, dryRun bool) (undo, done func(), err error) {
	if s.registry.Allocate == nil {
		return nothing, nothing, nil
	}
	return s.registry.Allocate.Allocate(ctx, s.kind, o, old, dryRun)
}
