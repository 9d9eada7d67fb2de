// thread_safety.h: says what a lock guards, in words that clang checks (-Wthread-safety); other compilers skip them.
//
// A lock is a CAPABILITY. Only code that holds the lock touches a member GUARDED_BY it, or calls a function that
// REQUIRES it. EXCLUDES: the caller must not hold it, because the function takes it. `scripts/test thread_safety` runs
// the check. NOT_CHECKED turns the check off in a function that clang cannot follow. Its comment says why.
#pragma once

#ifdef __clang__
#define GRAPHPOOL_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define GRAPHPOOL_THREAD_SAFETY(attribute)
#endif

// Of classes.
#define CAPABILITY(name) GRAPHPOOL_THREAD_SAFETY(capability(name))
#define SCOPED_CAPABILITY GRAPHPOOL_THREAD_SAFETY(scoped_lockable)
// Of variables and members; PT_: of what the pointer points to.
#define GUARDED_BY(lock) GRAPHPOOL_THREAD_SAFETY(guarded_by(lock))
#define PT_GUARDED_BY(lock) GRAPHPOOL_THREAD_SAFETY(pt_guarded_by(lock))
// Marks a lock that guards no data. A comment beside the lock says what it keeps apart.
#define GUARDS_NO_DATA
// Of functions.
#define REQUIRES(...) GRAPHPOOL_THREAD_SAFETY(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) GRAPHPOOL_THREAD_SAFETY(locks_excluded(__VA_ARGS__))
#define TRY_ACQUIRE(...) GRAPHPOOL_THREAD_SAFETY(try_acquire_capability(__VA_ARGS__))
#define ACQUIRE(...) GRAPHPOOL_THREAD_SAFETY(acquire_capability(__VA_ARGS__))
#define RELEASE(...) GRAPHPOOL_THREAD_SAFETY(release_capability(__VA_ARGS__))
#define ASSERT_CAPABILITY(lock) GRAPHPOOL_THREAD_SAFETY(assert_capability(lock))
#define RETURN_CAPABILITY(lock) GRAPHPOOL_THREAD_SAFETY(lock_returned(lock))
#define NOT_CHECKED GRAPHPOOL_THREAD_SAFETY(no_thread_safety_analysis)
