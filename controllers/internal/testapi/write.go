package testapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

type object = unstructured.Unstructured

func decode(c *call, data []byte) (*object, error) {
	o := &object{}
	if err := json.Unmarshal(data, &o.Object); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	o.SetAPIVersion(c.kind.GroupVersion().String())
	o.SetKind(c.kind.Kind)
	return o, nil
}

func (s *Server) createLocked(c *call) (any, error) {
	o, err := decode(c, c.body)
	if err != nil {
		return nil, err
	}
	if c.kind.Namespaced {
		o.SetNamespace(c.key.namespace)
		if err := s.mayCreateLocked(c); err != nil {
			return nil, err
		}
	}
	if o.GetName() == "" {
		s.names++
		o.SetName(o.GetGenerateName() + fmt.Sprintf("%05s", strconv.FormatInt(int64(s.names), 36)))
	}
	key := objectKey{c.key.resource, c.key.namespace, o.GetName()}
	if s.objects[key] != nil {
		return nil, apierrors.NewAlreadyExists(key.resource, key.name)
	}
	o.SetUID(s.freshUID())
	setMeta(o, "creationTimestamp", s.now())
	o.SetGeneration(1)
	switch c.kind.Kind {
	case "Pod":
		setIfAbsent(o, "Pending", "status", "phase")
	case "Namespace":
		setIfAbsent(o, []any{"kubernetes"}, "spec", "finalizers")
		setIfAbsent(o, "Active", "status", "phase")
	}
	s.putLocked(key, o)
	return shown(c, o), nil
}

func (s *Server) mayCreateLocked(c *call) error {
	ns := s.objects[objectKey{resource: namespaces, name: c.key.namespace}]
	if ns == nil || ns.GetDeletionTimestamp() == nil {
		return nil
	}
	err := apierrors.NewForbidden(c.key.resource, "", fmt.Errorf("unable to create new content in namespace %s because it is being terminated", c.key.namespace))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", c.key.namespace), Field: "metadata.namespace",
	})
	return err
}

func (s *Server) updateLocked(c *call) (any, error) {
	o, err := decode(c, c.body)
	if err != nil {
		return nil, err
	}
	return s.replaceLocked(c, o)
}

func (s *Server) patchLocked(c *call) (any, error) {
	old := s.objects[c.key]
	if old == nil {
		return nil, apierrors.NewNotFound(c.key.resource, c.key.name)
	}
	before, err := old.MarshalJSON()
	if err != nil {
		return nil, err
	}
	after, err := patched(c, before)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	o, err := decode(c, after)
	if err != nil {
		return nil, err
	}
	return s.replaceLocked(c, o)
}

func patched(c *call, before []byte) ([]byte, error) {
	switch kind := types.PatchType(c.request.Header.Get("Content-Type")); kind {
	case types.MergePatchType:
		return jsonpatch.MergePatch(before, c.body)
	case types.JSONPatchType:
		patch, err := jsonpatch.DecodePatch(c.body)
		if err != nil {
			return nil, err
		}
		return patch.Apply(before)
	case types.StrategicMergePatchType:
		typed, err := scheme.Scheme.New(c.kind.GroupVersionKind)
		if err != nil {
			return nil, err
		}
		return strategicpatch.StrategicMergePatch(before, c.body, typed)
	default:
		return nil, fmt.Errorf("no such patch: %s", kind)
	}
}

// replaceLocked puts o in the place of what is there, as far as the path allows.
func (s *Server) replaceLocked(c *call, o *object) (any, error) {
	old := s.objects[c.key]
	if old == nil {
		return nil, apierrors.NewNotFound(c.key.resource, c.key.name)
	}
	if uid := o.GetUID(); uid != "" && uid != old.GetUID() {
		return nil, apierrors.NewConflict(c.key.resource, c.key.name, fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: %s", uid, old.GetUID()))
	}
	if v := o.GetResourceVersion(); v != "" && v != old.GetResourceVersion() {
		return nil, apierrors.NewConflict(c.key.resource, c.key.name, fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
	}
	o = merged(c, old, o)
	if apiequality.Semantic.DeepEqual(old.Object, o.Object) {
		return shown(c, old), nil
	}
	if s.finishedLocked(o) {
		return shown(c, s.removeLocked(c.key)), nil
	}
	s.putLocked(c.key, o)
	return shown(c, o), nil
}

// merged takes from o what a write to this path may set, and the rest from old.
func merged(c *call, old, o *object) *object {
	o.SetResourceVersion(old.GetResourceVersion())
	o.SetUID(old.GetUID())
	for _, field := range []string{"creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"} {
		if value, ok, _ := unstructured.NestedFieldNoCopy(old.Object, "metadata", field); ok {
			setMeta(o, field, value)
		} else {
			unstructured.RemoveNestedField(o.Object, "metadata", field)
		}
	}
	switch c.subresource {
	case "status":
		out := old.DeepCopy()
		out.Object["status"] = o.Object["status"]
		out.SetAnnotations(o.GetAnnotations())
		return out
	case "finalize":
		out := old.DeepCopy()
		out.Object["spec"] = o.Object["spec"]
		return out
	}
	if status, ok := old.Object["status"]; ok {
		o.Object["status"] = status
	} else {
		delete(o.Object, "status")
	}
	if c.kind.Kind == "Namespace" {
		o.Object["spec"] = old.Object["spec"]
	}
	annotated := c.kind.Kind == "Deployment" && !maps.Equal(old.GetAnnotations(), o.GetAnnotations())
	if annotated || !apiequality.Semantic.DeepEqual(old.Object["spec"], o.Object["spec"]) {
		o.SetGeneration(old.GetGeneration() + 1)
	}
	return o
}

// finishedLocked says that nothing holds up the deletion of an object any more.
func (s *Server) finishedLocked(o *object) bool {
	if o.GetDeletionTimestamp() == nil || len(o.GetFinalizers()) > 0 {
		return false
	}
	if grace := o.GetDeletionGracePeriodSeconds(); grace != nil && *grace > 0 {
		return false
	}
	held, _, _ := unstructured.NestedSlice(o.Object, "spec", "finalizers")
	return o.GetKind() != "Namespace" || len(held) == 0
}

func (s *Server) deleteAllLocked(c *call) (any, error) {
	match, err := selection(c)
	if err != nil {
		return nil, err
	}
	for _, o := range s.selectLocked(c.key.resource, match) {
		if _, err := s.deleteLocked(c, objectKey{c.key.resource, o.GetNamespace(), o.GetName()}); err != nil {
			return nil, err
		}
	}
	return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess}, nil
}

func (s *Server) deleteLocked(c *call, key objectKey) (any, error) {
	old := s.objects[key]
	if old == nil {
		return nil, apierrors.NewNotFound(key.resource, key.name)
	}
	var options metav1.DeleteOptions
	if len(c.body) > 0 {
		if err := json.Unmarshal(c.body, &options); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if p := options.Preconditions; p != nil {
		if p.UID != nil && *p.UID != old.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion() {
			return nil, apierrors.NewConflict(key.resource, key.name, fmt.Errorf("Precondition failed"))
		}
	}
	o := old.DeepCopy()
	propagate(o, &options)
	grace := graceOf(o, &options)
	if o.GetDeletionTimestamp() == nil {
		setMeta(o, "deletionTimestamp", s.now())
		setMeta(o, "deletionGracePeriodSeconds", grace)
		o.SetGeneration(o.GetGeneration() + 1)
		if o.GetKind() == "Namespace" {
			_ = unstructured.SetNestedField(o.Object, "Terminating", "status", "phase")
		}
	} else if now := o.GetDeletionGracePeriodSeconds(); now == nil || grace < *now {
		setMeta(o, "deletionGracePeriodSeconds", grace)
	}
	switch {
	case s.finishedLocked(o):
		return shown(c, s.removeLocked(key)), nil
	case !apiequality.Semantic.DeepEqual(old.Object, o.Object):
		s.putLocked(key, o)
	}
	return shown(c, o), nil
}

// graceOf is how long a pod that runs somewhere may take to end. Nothing else
// is deleted gracefully.
func graceOf(o *object, options *metav1.DeleteOptions) int64 {
	node, _, _ := unstructured.NestedString(o.Object, "spec", "nodeName")
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	switch {
	case o.GetKind() != "Pod" || node == "" || phase == "Succeeded" || phase == "Failed":
		return 0
	case options.GracePeriodSeconds != nil:
		return *options.GracePeriodSeconds
	}
	return 30
}

func propagate(o *object, options *metav1.DeleteOptions) {
	policy := metav1.DeletePropagationBackground
	if options.PropagationPolicy != nil {
		policy = *options.PropagationPolicy
	}
	for wanted, finalizer := range map[metav1.DeletionPropagation]string{
		metav1.DeletePropagationForeground: metav1.FinalizerDeleteDependents,
		metav1.DeletePropagationOrphan:     metav1.FinalizerOrphanDependents,
	} {
		finalizers := slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == finalizer && options.PropagationPolicy != nil })
		if policy == wanted {
			finalizers = append(finalizers, finalizer)
		}
		o.SetFinalizers(finalizers)
	}
}

func setMeta(o *object, field string, value any) {
	if err := unstructured.SetNestedField(o.Object, value, "metadata", field); err != nil {
		panic(err)
	}
}

func setIfAbsent(o *object, value any, path ...string) {
	if _, ok, _ := unstructured.NestedFieldNoCopy(o.Object, path...); !ok {
		_ = unstructured.SetNestedField(o.Object, value, path...)
	}
}
