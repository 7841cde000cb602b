package access_test

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// A body of another namespace is refused, so that nobody who is allowed something in one namespace is believed to have
// been so in another.
func TestTheBodyOfAnActionIsOfTheNamespaceOfItsPath(t *testing.T) {
	c := startAPIServer(t)
	c.account("robot")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	_, err := c.admin.CoreV1().Pods("default").Create(c.ctx, pod, metav1.CreateOptions{})
	c.must(err)
	elsewhere := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "kube-system", Name: name} }
	for path, body := range map[string]runtime.Object{
		"/api/v1/namespaces/default/pods/p/binding":                                  &corev1.Binding{ObjectMeta: elsewhere("p"), Target: corev1.ObjectReference{Kind: "Node", Name: "n"}},
		"/api/v1/namespaces/default/pods/p/eviction":                                 &policyv1.Eviction{ObjectMeta: elsewhere("p")},
		"/api/v1/namespaces/default/serviceaccounts/robot/token":                     &authenticationv1.TokenRequest{ObjectMeta: elsewhere("robot")},
		"/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews": &authorizationv1.LocalSubjectAccessReview{ObjectMeta: elsewhere(""), Spec: authorizationv1.SubjectAccessReviewSpec{User: "u", ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Namespace: "kube-system"}}},
	} {
		err := c.admin.CoreV1().RESTClient().Post().AbsPath(path).Body(body).Do(c.ctx).Error()
		if !apierrors.IsBadRequest(err) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if p, err := c.admin.CoreV1().Pods("default").Get(c.ctx, "p", metav1.GetOptions{}); err != nil || p.Spec.NodeName != "" || p.DeletionTimestamp != nil {
		t.Errorf("the pod afterwards: %+v, %v", p, err)
	}
}
