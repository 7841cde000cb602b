package resourceclaim

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

// syncPod makes the claims that a pod needs, says in its status which these are, and notes a pod that has a node as
// their user.
func (r *controller) syncPod(ctx context.Context, key loop.Key) (loop.Result, error) {
	pod, ok := r.pods.Lookup(key)
	if !ok || pod.DeletionTimestamp != nil || pod.Finished() {
		return loop.Result{}, nil
	}
	made, changed := map[string]string{}, false
	for i := range pod.Devices {
		c := &pod.Devices[i]
		if c.Template == "" || c.Known && c.Claim == "" {
			continue
		}
		claim, err := r.claimFor(ctx, pod, c)
		if err != nil {
			r.recorder.Eventf(podReference(pod), corev1.EventTypeWarning, "FailedResourceClaimCreation", "PodResourceClaim %s: %v", c.Name, err)
			return loop.Result{}, fmt.Errorf("pod %s, resource claim %s: %w", key, c.Name, err)
		}
		made[c.Name] = claim.Name
		changed = changed || claim.Name != c.Claim
	}
	if changed {
		if err := r.tell(ctx, pod, made); err != nil {
			return loop.Result{}, fmt.Errorf("write the resource claims of pod %s into its status: %w", key, err)
		}
	}
	if pod.Node == "" {
		return loop.Result{}, nil // the scheduler notes it as a user
	}
	return loop.Result{}, r.reserve(ctx, pod)
}

// podReference is a pod as events name it.
func podReference(pod *podview.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}
}

// claimFor finds the claim that was made for a pod from a template, or makes it.
func (r *controller) claimFor(ctx context.Context, pod *podview.Pod, c *podview.DeviceClaim) (*resourcev1.ResourceClaim, error) {
	if c.Claim != "" {
		if claim, ok := r.claims.Get(pod.Namespace, c.Claim); ok && metav1.IsControlledBy(claim, pod) {
			return claim, nil
		}
	}
	for claim := range r.claims.By(byOwner, string(pod.UID)) {
		if claim.Annotations[madeFor] == c.Name && claim.DeletionTimestamp == nil {
			return claim, nil
		}
	}
	template, ok := r.templates.Get(pod.Namespace, c.Template)
	if !ok {
		return nil, fmt.Errorf("resource claim template %q: %w", c.Template,
			apierrors.NewNotFound(resourcev1.Resource("resourceclaimtemplate"), c.Template))
	}
	return r.create(ctx, pod, c, template)
}

// nameTries is how many names are tried that objects of others may have.
const nameTries = 5

// create makes a claim. The same claim of the same pod is made under the same name, whenever that is tried.
func (r *controller) create(ctx context.Context, pod *podview.Pod, c *podview.DeviceClaim, template *resourcev1.ResourceClaimTemplate) (*resourcev1.ResourceClaim, error) {
	base := baseName(pod.Name, c.Name)
	claim := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: base, Namespace: pod.Namespace, Labels: template.Spec.Labels, Annotations: maps.Clone(template.Spec.Annotations),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Spec: template.Spec.Spec,
	}
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, madeFor, c.Name)
	for try := range nameTries {
		claim.Name = base + suffix(pod, c.Name, try)
		made, err := r.writer.Create(ctx, claim)
		if apierrors.IsAlreadyExists(err) {
			there, readErr := r.kube.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, claim.Name, metav1.GetOptions{})
			switch {
			case readErr == nil && metav1.IsControlledBy(there, pod) && there.Annotations[madeFor] == c.Name && there.DeletionTimestamp == nil:
				return there, nil // made by a life of this loop that did not get the answer
			case readErr == nil:
				continue
			}
			err = readErr
		}
		r.metrics.Created(admin(&claim.Spec), err)
		if err != nil {
			return nil, fmt.Errorf("create ResourceClaim %s: %w", claim.Name, err)
		}
		return made, nil
	}
	return nil, fmt.Errorf("create ResourceClaim %s: %d names like it are in use", base, nameTries)
}

// longestBase leaves room for the suffix in a name of 63 characters.
const longestBase = 63 - suffixLength

const suffixLength = 5

// baseName is what the name of a pod's claim begins with: both names, each cut by the same part if they are too long
// together.
func baseName(pod, claim string) string {
	if whole := len(pod) + len(claim) + 2; whole > longestBase {
		room := longestBase - 2
		pod, claim = pod[:len(pod)*room/whole], claim[:len(claim)*room/whole]
	}
	return strings.TrimRight(pod, ".-") + "-" + claim + "-"
}

// suffix is what a claim's name ends with, in the letters of names that the API server makes.
func suffix(pod *podview.Pod, claim string, try int) string {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s/%s/%d", pod.UID, claim, try)
	letters := "00000" + strconv.FormatUint(hash.Sum64(), 36)
	return rand.SafeEncodeString(letters[len(letters)-suffixLength:])
}

// admin says whether a claim asks for the access of administrators.
func admin(spec *resourcev1.ResourceClaimSpec) bool {
	for i := range spec.Devices.Requests {
		if exact := spec.Devices.Requests[i].Exactly; exact != nil && exact.AdminAccess != nil && *exact.AdminAccess {
			return true
		}
	}
	return false
}

// tell writes into a pod's status which claims were made for it. It applies all of them, since those that an
// application leaves out go.
func (r *controller) tell(ctx context.Context, pod *podview.Pod, made map[string]string) error {
	status := corev1apply.PodStatus()
	for _, c := range pod.Devices {
		if c.Template == "" {
			continue
		}
		entry := corev1apply.PodResourceClaimStatus().WithName(c.Name)
		if claim, ok := made[c.Name]; ok {
			entry.WithResourceClaimName(claim)
		}
		status.WithResourceClaimStatuses(entry)
	}
	// The uid keeps this from another pod of the same name.
	apply := corev1apply.Pod(pod.Name, pod.Namespace).WithUID(pod.UID).WithStatus(status)
	_, err := r.kube.CoreV1().Pods(pod.Namespace).ApplyStatus(ctx, apply, metav1.ApplyOptions{FieldManager: manager, Force: true})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// reserve notes a pod with a node as a user of the claims that are allocated: the scheduler did not, if it was not
// asked.
func (r *controller) reserve(ctx context.Context, pod *podview.Pod) error {
	for i := range pod.Devices {
		c := &pod.Devices[i]
		claim, ok := r.claims.Get(pod.Namespace, c.Claim)
		if c.Claim == "" || c.Name == "" || !ok {
			continue
		}
		if c.Own() && !metav1.IsControlledBy(claim, pod) {
			return loop.Terminal(fmt.Errorf("ResourceClaim %s was not created for pod %s (pod is not owner)", informer.KeyOf(claim), informer.KeyOf(pod)))
		}
		if claim.Status.Allocation == nil || reservedFor(claim, pod) || len(claim.Status.ReservedFor) >= resourcev1.ResourceClaimReservedForMaxSize {
			continue
		}
		noted := claim.DeepCopy()
		noted.Status.ReservedFor = append(noted.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
		if _, err := r.writer.UpdateStatus(ctx, noted); err != nil {
			return fmt.Errorf("reserve claim %s for pod %s: %w", informer.KeyOf(claim), informer.KeyOf(pod), err)
		}
	}
	return nil
}

func reservedFor(claim *resourcev1.ResourceClaim, pod *podview.Pod) bool {
	for i := range claim.Status.ReservedFor {
		if claim.Status.ReservedFor[i].UID == pod.UID {
			return true
		}
	}
	return false
}
