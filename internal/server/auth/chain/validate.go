package chain

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/millrace/millrace/internal/server/auth/expression"
)

// Validate says, in the words of kube-apiserver, what is wrong with a configuration. Authorizers of some types must be
// in it.
func Validate(c *Configuration, needed ...string) error {
	if errs := check(c); len(errs) > 0 {
		return errs.ToAggregate()
	}
	var errs []error
	for _, a := range c.Authorizers {
		if want := nameOf(a.Type); a.Type != Hook && a.Name != want {
			errs = append(errs, fmt.Errorf("expected name %s for authorizer %s instead of %s", want, a.Type, a.Name))
		}
	}
	missing := slices.DeleteFunc(slices.Clone(needed), func(one string) bool {
		return one == Hook || slices.ContainsFunc(c.Authorizers, func(a Authorizer) bool { return a.Type == one })
	})
	if len(missing) > 0 {
		slices.Sort(missing)
		errs = append(errs, fmt.Errorf("missing required types: %v", missing))
	}
	return errors.Join(errs...)
}

func check(c *Configuration) field.ErrorList {
	root := field.NewPath("authorizers")
	var errs field.ErrorList
	if len(c.Authorizers) == 0 {
		errs = append(errs, field.Required(root, "at least one authorization mode must be defined"))
	}
	types, names := map[string]bool{}, map[string]bool{}
	for i, a := range c.Authorizers {
		path := root.Index(i)
		switch {
		case a.Type == "":
			errs = append(errs, field.Required(path.Child("type"), ""))
			continue
		case !slices.Contains(Types, a.Type):
			errs = append(errs, field.NotSupported(path.Child("type"), a.Type, Types))
			continue
		case types[a.Type] && a.Type != Hook:
			errs = append(errs, field.Duplicate(path.Child("type"), a.Type))
			continue
		}
		types[a.Type] = true
		errs = append(errs, checkName(a.Name, names[a.Name], path.Child("name"))...)
		names[a.Name] = true
		switch {
		case a.Type == Hook && a.Webhook == nil:
			errs = append(errs, field.Required(path.Child("webhook"), "required when type=Webhook"))
		case a.Type == Hook:
			errs = append(errs, a.Webhook.check(path)...)
		case a.Webhook != nil:
			errs = append(errs, field.Invalid(path.Child("webhook"), "non-null", "may only be specified when type=Webhook"))
		}
	}
	return errs
}

func checkName(name string, seen bool, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	if seen {
		return field.ErrorList{field.Duplicate(path, name)}
	}
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return field.ErrorList{field.Invalid(path, name, "authorizer name is invalid: "+strings.Join(wrong, ", "))}
	}
	return nil
}

const longestTimeout = 30 * time.Second

func (w *Webhook) check(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch d := w.Timeout.Duration; {
	case d == 0:
		errs = append(errs, field.Required(path.Child("timeout"), ""))
	case d < 0 || d > longestTimeout:
		errs = append(errs, field.Invalid(path.Child("timeout"), d.String(), "must be > 0s and <= 30s"))
	}
	for _, ttl := range []struct {
		name string
		is   time.Duration
	}{{"authorizedTTL", w.AuthorizedTTL.Duration}, {"unauthorizedTTL", w.UnauthorizedTTL.Duration}} {
		switch at := path.Child(ttl.name); {
		case ttl.is == 0:
			errs = append(errs, field.Required(at, ""))
		case ttl.is < 0:
			errs = append(errs, field.Invalid(at, ttl.is.String(), "must be > 0s"))
		}
	}
	errs = append(errs, oneOf(w.SubjectAccessReviewVersion, path.Child("subjectAccessReviewVersion"), "", "v1", "v1beta1")...)
	if at := path.Child("matchConditionSubjectAccessReviewVersion"); w.MatchConditionSubjectAccessReviewVersion != "" {
		errs = append(errs, oneOf(w.MatchConditionSubjectAccessReviewVersion, at, "", "v1")...)
	} else if len(w.MatchConditions) > 0 {
		errs = append(errs, field.Required(at, "required if match conditions are specified"))
	}
	errs = append(errs, oneOf(w.FailurePolicy, path.Child("failurePolicy"), "", failNoOpinion, failDeny)...)
	errs = append(errs, w.ConnectionInfo.check(path.Child("connectionInfo"))...)
	_, wrong := w.conditions(path.Child("matchConditions"))
	return append(errs, wrong...)
}

func oneOf(value string, path *field.Path, why string, allowed ...string) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(path, why)}
	case !slices.Contains(allowed, value):
		return field.ErrorList{field.NotSupported(path, value, allowed)}
	}
	return nil
}

func (c *ConnectionInfo) check(path *field.Path) field.ErrorList {
	at := path.Child("kubeConfigFile")
	if wrong := oneOf(c.Type, path.Child("type"), "", inCluster, inFile); len(wrong) > 0 {
		return wrong
	}
	if c.Type == inCluster {
		if c.KubeConfigFile != nil {
			return field.ErrorList{field.Invalid(at, *c.KubeConfigFile, "can only be set when type=KubeConfigFile")}
		}
		return field.ErrorList{field.Invalid(path.Child("type"), c.Type, "the API server itself is in no cluster")}
	}
	if c.KubeConfigFile == nil || *c.KubeConfigFile == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	file := *c.KubeConfigFile
	if !filepath.IsAbs(file) {
		return field.ErrorList{field.Invalid(at, file, "must be an absolute path")}
	}
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(at, file, fmt.Sprintf("error loading file: %v", err))}
	case !info.Mode().IsRegular():
		return field.ErrorList{field.Invalid(at, file, "must be a regular file")}
	}
	return nil
}

const mostConditions = 64

// conditions compiles the conditions of a webhook.
func (w *Webhook) conditions(path *field.Path) (all []*expression.Expression, errs field.ErrorList) {
	if n := len(w.MatchConditions); n > mostConditions {
		return nil, field.ErrorList{field.TooMany(path, n, mostConditions)}
	}
	seen := map[string]bool{}
	for i, c := range w.MatchConditions {
		at := path.Index(i).Child("expression")
		switch {
		case strings.TrimSpace(c.Expression) == "":
			errs = append(errs, field.Required(at, ""))
		case seen[c.Expression]:
			errs = append(errs, field.Duplicate(at, c.Expression))
		default:
			e, err := expression.Request(c.Expression)
			switch {
			case err == nil:
				all = append(all, e)
			case err.Type == apiservercel.ErrorTypeInvalid:
				errs = append(errs, field.Invalid(at, c.Expression, err.Detail))
			default:
				errs = append(errs, field.InternalError(at, err))
			}
		}
		seen[c.Expression] = true
	}
	return all, errs
}
