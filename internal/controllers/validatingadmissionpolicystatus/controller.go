// Package validatingadmissionpolicystatus checks the types of the expressions in validating admission policies, and
// says in their status what is wrong.
//
// What is guaranteed: status.observedGeneration is the generation that was checked, and
// status.typeChecking.expressionWarnings has one entry for each expression with an error, in the words of Kubernetes.
// An expression is compiled for each kind that the rules name without a wildcard, for ten of a rule at most. A policy
// is checked once for each generation: kinds that come later do not change what was found. Types are checked for people
// to read; a policy with warnings works as before.
package validatingadmissionpolicystatus

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applyadmission "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

const (
	name = "validatingadmissionpolicy-status-controller"
	// manager owns the fields of the status.
	manager = "validatingadmissionpolicy-status"
	workers = 5
)

// Entry is this loop among the others.
var Entry = loop.Entry{Name: name, New: New}

type controller struct {
	kube      kubernetes.Interface
	discovery discovery.DiscoveryInterface
	policies  *informer.Shared[*admissionv1.ValidatingAdmissionPolicy]
}

// New makes the loop. Its keys are policies.
func New(c *loop.Clients) (loop.Runner, error) {
	r := &controller{
		kube: c.Kube, discovery: c.Discovery,
		policies: loop.Informer(c, informer.For(c.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicies())),
	}
	return &loop.Loop{Name: name, Clients: c, Workers: workers, Sync: r.sync, Watches: []loop.Watch{loop.Self(r.policies)}}, nil
}

func (r *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	p, ok := r.policies.Lookup(key)
	if !ok || p.Generation <= p.Status.ObservedGeneration {
		return loop.Result{}, nil
	}
	found, err := check(p, &schemas{discovery: r.discovery})
	if err != nil {
		return loop.Result{}, err
	}
	warnings := make([]*applyadmission.ExpressionWarningApplyConfiguration, len(found))
	for i, w := range found {
		warnings[i] = applyadmission.ExpressionWarning().WithFieldRef(w.FieldRef).WithWarning(w.Warning)
	}
	status := applyadmission.ValidatingAdmissionPolicyStatus().WithObservedGeneration(p.Generation).
		WithTypeChecking(applyadmission.TypeChecking().WithExpressionWarnings(warnings...))
	_, err = r.kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().ApplyStatus(ctx,
		applyadmission.ValidatingAdmissionPolicy(p.Name).WithStatus(status), metav1.ApplyOptions{FieldManager: manager, Force: true})
	if apierrors.IsNotFound(err) {
		return loop.Result{}, nil
	}
	return loop.Result{}, err
}
