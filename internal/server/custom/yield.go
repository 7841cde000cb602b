package custom

import (
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// yield takes from a definition the accepted names that built-in kinds of its group have. It cannot be served without a
// plural or a kind, so it is Established no more then. Such names can be stored: an older program accepted them or did
// not have the built-in kind yet, or somebody who may write the status put them there.
func (d *Definitions) yield(def *v1.CustomResourceDefinition) {
	builtIn, has := d.o.Registry.Catalogue.BuiltIn(def.Spec.Group), &def.Status.AcceptedNames
	if len(builtIn.Kinds) == 0 {
		return
	}
	drop := func(name *string, taken []string) (dropped bool) {
		if *name == "" || !slices.Contains(taken, *name) {
			return false
		}
		*name = ""
		return true
	}
	drop(&has.Singular, builtIn.Resources)
	has.ShortNames = slices.DeleteFunc(has.ShortNames, func(n string) bool { return slices.Contains(builtIn.Resources, n) })
	plural, kind, list := drop(&has.Plural, builtIn.Resources), drop(&has.Kind, builtIn.Kinds), drop(&has.ListKind, builtIn.Kinds)
	if (plural || kind || list || has.Plural == "" || has.Kind == "") && apihelpers.IsCRDConditionTrue(def, v1.Established) {
		apihelpers.SetCRDCondition(def, v1.CustomResourceDefinitionCondition{
			Type: v1.Established, Status: v1.ConditionFalse, Reason: "NotAccepted", Message: "not all names are accepted"})
	}
}
