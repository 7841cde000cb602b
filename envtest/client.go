package envtest

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
)

// client writes the few kinds that an environment installs.
type client struct{ rest rest.Interface }

// collection is where the objects of a kind are.
type collection struct {
	path  string
	empty func() object
}

// object is an object of one of these kinds.
type object interface {
	runtime.Object
	metav1.Object
}

var (
	definitions = collection{"/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		func() object { return &apiextensionsv1.CustomResourceDefinition{} }}
	mutating = collection{"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
		func() object { return &admissionv1.MutatingWebhookConfiguration{} }}
	validating = collection{"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
		func() object { return &admissionv1.ValidatingWebhookConfiguration{} }}
)

func newClient(config *rest.Config) (*client, error) {
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apiextensionsv1.AddToScheme, admissionv1.AddToScheme} {
		if err := add(known); err != nil {
			return nil, err
		}
	}
	metav1.AddToGroupVersion(known, metav1.SchemeGroupVersion)
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.NegotiatedSerializer = serializer.NewCodecFactory(known).WithoutConversion()
	c, err := rest.UnversionedRESTClientFor(config)
	return &client{c}, err
}

// put creates an object, or updates the one of its name. The object becomes what the API server has answered.
func (c *client) put(ctx context.Context, in collection, o object) error {
	wanted := o.DeepCopyObject().(object)
	wanted.SetResourceVersion("")
	err := c.rest.Post().AbsPath(in.path).Body(wanted).Do(ctx).Into(o)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		old := in.empty()
		if err := c.get(ctx, in, o.GetName(), old); err != nil {
			return err
		}
		wanted.SetResourceVersion(old.GetResourceVersion())
		return c.rest.Put().AbsPath(in.path, o.GetName()).Body(wanted).Do(ctx).Into(o)
	})
}

func (c *client) get(ctx context.Context, in collection, name string, into object) error {
	return c.rest.Get().AbsPath(in.path, name).Do(ctx).Into(into)
}

func (c *client) delete(ctx context.Context, in collection, name string) error {
	return c.rest.Delete().AbsPath(in.path, name).Do(ctx).Error()
}

// resources are the names of what a group and version serves.
func (c *client) resources(ctx context.Context, groupVersion string) ([]string, error) {
	list := &metav1.APIResourceList{}
	if err := c.rest.Get().AbsPath("/apis", groupVersion).Do(ctx).Into(list); err != nil {
		return nil, err
	}
	var names []string
	for _, r := range list.APIResources {
		names = append(names, r.Name)
	}
	return names, nil
}
