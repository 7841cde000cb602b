// Package history maintains the ControllerRevisions of an object: the pod templates that it has had.
//
// The data has Kubernetes' format, a patch that replaces the template, so Kubernetes' own controllers and these
// understand each other's revisions. A template never has two revisions: when it comes back, its old revision gets the
// highest number.
package history

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/owned"
	"github.com/millrace/millrace/loop"
)

// History maintains the revisions for all owners of one kind. All fields are required.
type History struct {
	Kube  kubernetes.Interface
	Cache *informer.Shared[*appsv1.ControllerRevision] // made by [Informer]
	Kind  schema.GroupVersionKind                      // the owners' kind
	// HashLabel is the label with the hash of the template.
	HashLabel string
	// Live reads an owner from the API.
	Live func(ctx context.Context, namespace, name string) (metav1.Object, error)
}

// Owner is an object that has a history.
type Owner struct {
	metav1.Object
	Key        loop.Key
	Template   *corev1.PodTemplateSpec
	Collisions *int32
}

// ErrCollision means that a revision of another template has the name. The owner's collision count must be increased.
var ErrCollision = errors.New("a revision of another template has the name of the new one")

// Collided returns the collision count after [ErrCollision].
func Collided(count *int32) *int32 {
	if count == nil {
		return new(int32(1))
	}
	return new(*count + 1)
}

// Informer returns the shared informer of revisions.
func Informer(c *loop.Clients) *informer.Shared[*appsv1.ControllerRevision] {
	return owned.Index(loop.Informer(c, informer.For(c.Kube.AppsV1().ControllerRevisions(""))))
}

// Claim adopts and releases revisions, and returns those of an owner, oldest first.
func (h *History) Claim(ctx context.Context, owner Owner, selector labels.Selector) ([]*appsv1.ControllerRevision, error) {
	claims := loop.Claims[*appsv1.ControllerRevision]{
		Owner: owner, Kind: h.Kind, Selector: selector,
		Live: func(ctx context.Context) (metav1.Object, error) {
			return h.Live(ctx, owner.GetNamespace(), owner.GetName())
		},
		Patch: func(ctx context.Context, r *appsv1.ControllerRevision, patch []byte) error {
			written, err := h.Kube.AppsV1().ControllerRevisions(r.Namespace).Patch(ctx, r.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			return h.wrote(ctx, owner, written, err, "patch")
		},
	}
	all, err := claims.Claim(ctx, owned.Candidates(h.Cache, owner, selector))
	sortByNumber(all)
	return all, err
}

func sortByNumber(all []*appsv1.ControllerRevision) {
	slices.SortFunc(all, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// Current returns the revision of the owner's current template, which has the highest number, and all revisions
// including it.
func (h *History) Current(ctx context.Context, owner Owner, all []*appsv1.ControllerRevision) (*appsv1.ControllerRevision, []*appsv1.ControllerRevision, error) {
	highest := int64(0)
	var found *appsv1.ControllerRevision
	for _, r := range all {
		highest = max(highest, r.Revision)
		if template, err := Template(r); err == nil && apiequality.Semantic.DeepEqual(template, owner.Template) {
			found = r // the last one, if there are several
		}
	}
	var err error
	switch {
	case found == nil:
		if found, err = h.create(ctx, owner, highest+1); err == nil {
			all = append(slices.Clone(all), found)
		}
	case found.Revision < highest:
		raised := found.DeepCopy()
		raised.Revision = highest + 1
		written, failure := h.Kube.AppsV1().ControllerRevisions(raised.Namespace).Update(ctx, raised, metav1.UpdateOptions{})
		if err = h.wrote(ctx, owner, written, failure, "raise"); err == nil {
			all = slices.Clone(all)
			all[slices.Index(all, found)] = written
			found = written
			sortByNumber(all)
		}
	}
	return found, all, err
}

func (h *History) create(ctx context.Context, owner Owner, number int64) (*appsv1.ControllerRevision, error) {
	fresh, err := h.revision(owner, number)
	if err != nil {
		return nil, err
	}
	revisions := h.Kube.AppsV1().ControllerRevisions(fresh.Namespace)
	written, err := revisions.Create(ctx, fresh, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return written, h.wrote(ctx, owner, written, err, "create")
	}
	taken, err := revisions.Get(ctx, fresh.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("look at the revision %s: %w", fresh.Name, err)
	}
	template, err := Template(taken)
	if err == nil && metav1.IsControlledBy(taken, owner) && apiequality.Semantic.DeepEqual(template, owner.Template) {
		return taken, h.wrote(ctx, owner, taken, nil, "find")
	}
	return nil, ErrCollision
}

// revision makes a new revision of the owner's template.
func (h *History) revision(owner Owner, number int64) (*appsv1.ControllerRevision, error) {
	data, err := dataOf(owner.Template)
	if err != nil {
		return nil, err
	}
	hash := hashOf(data, owner.Collisions)
	marked := maps.Clone(owner.Template.Labels)
	if marked == nil {
		marked = map[string]string{}
	}
	marked[h.HashLabel] = hash
	prefix := owner.GetName()
	if len(prefix) > 223 {
		prefix = prefix[:223]
	}
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: prefix + "-" + hash, Namespace: owner.GetNamespace(), Labels: marked, Annotations: owner.GetAnnotations(),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, h.Kind)},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: number,
	}, nil
}

// Truncate deletes the oldest unused revisions beyond a limit.
func (h *History) Truncate(ctx context.Context, owner Owner, all []*appsv1.ControllerRevision, limit int, inUse func(*appsv1.ControllerRevision) bool) error {
	var unused []*appsv1.ControllerRevision
	for _, r := range all {
		if !inUse(r) && r.DeletionTimestamp == nil {
			unused = append(unused, r)
		}
	}
	for _, r := range unused[:max(0, len(unused)-limit)] {
		err := h.Kube.AppsV1().ControllerRevisions(r.Namespace).Delete(ctx, r.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(r.UID))})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete the revision %s: %w", informer.KeyOf(r), err)
		}
		loop.Removed(ctx, h.Cache, r)
	}
	return nil
}

func (h *History) wrote(ctx context.Context, owner Owner, r *appsv1.ControllerRevision, err error, what string) error {
	if err != nil {
		return fmt.Errorf("%s a revision of %s: %w", what, owner.Key, err)
	}
	loop.Wrote(ctx, h.Cache, r.ResourceVersion)
	return nil
}

// Template returns the pod template of a revision.
func Template(r *appsv1.ControllerRevision) (*corev1.PodTemplateSpec, error) {
	var data struct {
		Spec struct{ Template corev1.PodTemplateSpec }
	}
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
		return nil, fmt.Errorf("read the revision %s: %w", r.Name, err)
	}
	return &data.Spec.Template, nil
}

// dataOf returns the patch that sets a template.
func dataOf(template *corev1.PodTemplateSpec) ([]byte, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(template)
	if err != nil {
		return nil, err
	}
	fields["$patch"] = "replace"
	return json.Marshal(map[string]any{"spec": map[string]any{"template": fields}})
}

// hashOf returns the name suffix of a revision. The collision count changes it if the name is taken.
func hashOf(data []byte, collisions *int32) string {
	h := fnv.New32a()
	h.Write(data)
	if collisions != nil {
		h.Write([]byte(strconv.Itoa(int(*collisions))))
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}
