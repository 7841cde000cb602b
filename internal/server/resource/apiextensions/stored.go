package apiextensions

import (
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/server/resource"
)

// storedForm is how kube-apiserver 1.37 stores definitions, and so do we: as JSON of v1beta1, in which a definition
// whose versions have the same schema has it once. It reads other forms too, as we do, and writes none.
func storedForm() resource.Form[*v1.CustomResourceDefinition] {
	return resource.Form[*v1.CustomResourceDefinition]{
		GroupVersionKind: v1beta1.SchemeGroupVersion.WithKind("CustomResourceDefinition"),
		New:              func() runtime.Object { return &v1beta1.CustomResourceDefinition{} },
		To:               fromStored,
		From:             toStored,
		JSON:             true,
	}
}

// fromStored converts with the defaults of v1beta1: what old servers stored may lack them. The versions of a definition
// that has one schema get a copy each, so that a patch of one does not change the others.
func fromStored(o runtime.Object) (*v1.CustomResourceDefinition, error) {
	stored := o.(*v1beta1.CustomResourceDefinition)
	v1beta1.SetObjectDefaults_CustomResourceDefinition(stored)
	between, out := &apiextensions.CustomResourceDefinition{}, &v1.CustomResourceDefinition{}
	if err := v1beta1.Convert_v1beta1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(stored, between, nil); err != nil {
		return nil, err
	}
	if err := v1.Convert_apiextensions_CustomResourceDefinition_To_v1_CustomResourceDefinition(between, out, nil); err != nil {
		return nil, err
	}
	for i := 1; i < len(out.Spec.Versions); i++ {
		out.Spec.Versions[i] = *out.Spec.Versions[i].DeepCopy()
	}
	return out, nil
}

func toStored(d *v1.CustomResourceDefinition) (runtime.Object, error) {
	between, out := &apiextensions.CustomResourceDefinition{}, &v1beta1.CustomResourceDefinition{}
	if err := v1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(d, between, nil); err != nil {
		return nil, err
	}
	if err := v1beta1.Convert_apiextensions_CustomResourceDefinition_To_v1beta1_CustomResourceDefinition(between, out, nil); err != nil {
		return nil, err
	}
	return out, nil
}
