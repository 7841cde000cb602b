package envtest

import (
	"reflect"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// setConversion lets webhooks convert the custom resources of those kinds that the scheme can convert, and of no
// others, because definitions are generated with webhooks that a suite may not serve.
func (o *CRDInstallOptions) setConversion() error {
	if len(o.WebhookOptions.LocalServingCAData) == 0 {
		return nil
	}
	address, err := o.WebhookOptions.address()
	if err != nil {
		return err
	}
	url := "https://" + address + "/convert"
	for _, crd := range o.CRDs {
		kind := schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}
		switch {
		case crd.Spec.PreserveUnknownFields:
			continue
		case !o.WebhookOptions.IgnoreSchemeConvertible && !convertible(o.Scheme, kind):
			crd.Spec.Conversion = nil
			continue
		}
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
			Strategy: apiextensionsv1.WebhookConverter,
			Webhook: &apiextensionsv1.WebhookConversion{
				ConversionReviewVersions: []string{"v1", "v1beta1"},
				ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: o.WebhookOptions.LocalServingCAData},
			},
		}
	}
	return nil
}

// hub is controller-runtime's conversion.Hub.
type hub interface {
	runtime.Object
	Hub()
}

// convertible tells whether one version of a kind is a hub and all others can be converted to and from it.
func convertible(scheme *runtime.Scheme, kind schema.GroupKind) bool {
	hubs, spokes := 0, 0
	for _, version := range scheme.VersionsForGroupKind(kind) {
		o, err := scheme.New(version.WithKind(kind.Kind))
		if err != nil {
			return false
		}
		if _, ok := o.(hub); ok {
			hubs++
		} else if !isSpoke(o) {
			return false
		} else {
			spokes++
		}
	}
	return hubs == 1 && spokes > 0
}

// isSpoke tells whether an object has the methods of controller-runtime's conversion.Convertible. They are looked up by
// name, so that this package does not need that module.
func isSpoke(o runtime.Object) bool {
	for _, name := range []string{"ConvertTo", "ConvertFrom"} {
		method := reflect.ValueOf(o).MethodByName(name)
		if !method.IsValid() || method.Type().NumIn() != 1 || method.Type().NumOut() != 1 ||
			!method.Type().In(0).Implements(reflect.TypeFor[hub]()) || method.Type().Out(0) != reflect.TypeFor[error]() {
			return false
		}
	}
	return true
}
