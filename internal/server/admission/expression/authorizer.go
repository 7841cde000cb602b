package expression

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/millrace/millrace/internal/server/admission/attributes"
	"github.com/millrace/millrace/internal/server/auth"
)

// authorizers are the two variables by which expressions ask what the user may do: about anything, and about the
// request's resource.
func authorizers(in Input) (about, own any) {
	u := in.Version.UserInfo()
	who := &user.DefaultInfo{Name: u.Username, UID: u.UID, Groups: u.Groups, Extra: map[string][]string{}}
	for k, v := range u.Extra {
		who.Extra[k] = v
	}
	ask := permissions{in.Authorize}
	return library.NewAuthorizerVal(who, ask), library.NewResourceAuthorizerVal(who, ask, asked{in.Version})
}

// asked is the resource of a request.
type asked struct{ *attributes.Version }

func (a asked) GetName() string                          { return a.Named }
func (a asked) GetNamespace() string                     { return a.Within }
func (a asked) GetResource() schema.GroupVersionResource { return a.Request.Resource }
func (a asked) GetSubresource() string                   { return a.View }

// permissions are asked by Kubernetes' library.
type permissions struct{ auth.Authorizer }

func (p permissions) Authorize(ctx context.Context, at authorizer.Attributes) (authorizer.Decision, string, error) {
	u := at.GetUser()
	q := auth.Attributes{
		User: auth.User{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra()},
		Verb: at.GetVerb(), IsResource: at.IsResourceRequest(), Group: at.GetAPIGroup(), Version: at.GetAPIVersion(), Resource: at.GetResource(),
		Subresource: at.GetSubresource(), Namespace: at.GetNamespace(), Name: at.GetName(), Path: at.GetPath(),
	}
	var err error
	if q.Fields, err = at.GetFieldSelector(); err != nil {
		q.Fields = nil // what cannot be read selects everything
	}
	if q.Labels, err = at.GetLabelSelector(); err != nil {
		q.Labels = nil
	}
	v := p.Authorizer.Authorize(ctx, q)
	switch v.Decision {
	case auth.Allow:
		return authorizer.DecisionAllow, v.Why(), v.Err
	case auth.Deny:
		return authorizer.DecisionDeny, v.Why(), v.Err
	}
	return authorizer.DecisionNoOpinion, v.Why(), v.Err
}
