// Package webhook asks servers elsewhere who holds a token (TokenReview) and what is allowed (SubjectAccessReview).
//
// What is guaranteed: an answer is kept as long as the options say, and no longer; in between nobody is asked. Answers
// are kept for a bounded number of questions. A server that does not answer is asked again, five times at most; after
// that a token is refused with an error, and an authorizer has no opinion and says why. Many who ask the same at a time
// are one question.
package webhook
