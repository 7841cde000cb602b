// Package oidc believes the tokens that issuers elsewhere have signed: what an AuthenticationConfiguration says, or the
// flags --oidc-*.
//
// What is guaranteed: a token is believed only if a public key of its issuer verifies its signature, with one of the
// asymmetric algorithms that are allowed, and if it is in time, meant for one of the audiences, and as the rules want
// it. What the token itself says about keys (jwk, jku, x5u) is not looked at. An issuer that cannot be reached refuses
// nobody who was known before: the keys that were fetched last stay in use. Before any have been fetched, its tokens
// are answered with an error that is no refusal. A key that an issuer withdraws is believed for refreshEvery at most,
// as long as the issuer can be reached. Answers of issuers are bounded in size and time, and an unknown key makes the
// issuer be asked once a second at most.
//
// The file of the configuration is followed. A changed one is used when it is valid and its new issuers have answered;
// until then the one before stays in use. Issuers that did not change keep their keys.
package oidc
