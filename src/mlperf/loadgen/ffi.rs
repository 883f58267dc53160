//! LoadGen's library, loaded at run time: the only file of the program with `unsafe`.
//!
//! The types of this file rule out wrong uses of LoadGen: a second test in one process, a sample that is reported twice
//! or was never issued, tokens reported from two threads, a number of tokens that differs from the data's.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use rules::{MlperfScenario, Seeds};

/// `RLG_ABI` of the shim.
const ABI: c_int = 1;

/// LoadGen counts in a static how often it was configured: only the first test of a process is one.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Why LoadGen cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadgenError {
    #[error(
        "a process can run one LoadGen test, and this one has had its own: a second would be without LoadGen's rules"
    )]
    SecondTest,
    #[error("{path} cannot be loaded: {why}")]
    Load { path: String, why: String },
    #[error("{path} was built with another shim ({found}; this program's is {ABI}): build it again")]
    Abi { path: String, found: c_int },
    #[error("{0:?} holds a zero byte")]
    Zero(String),
    #[error("LoadGen did not understand {path} (code {code})")]
    Config { path: String, code: c_int },
    #[error("LoadGen has no setting {0}")]
    Setting(&'static str),
    #[error("LoadGen threw: {0}")]
    Exception(String),
}

/// One sample that LoadGen calls for. `ticket` counts from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    pub ticket: u64,
    pub sample: usize,
}

/// What LoadGen tests. Called on LoadGen's threads; `issue` must return at once.
pub trait Sut: Sync {
    fn issue(&self, queries: &[Query]);
    fn load(&self, samples: &[usize]);
    fn unload(&self, samples: &[usize]);
}

/// Names and numbers of a test.
#[derive(Clone, Debug)]
pub struct TestDescription<'a> {
    pub sut: &'a str,
    pub samples: &'a str,
    pub total: u64,
    pub performance: u64,
    /// Where logs go. It exists.
    pub out: &'a Path,
    pub audit: Option<&'a Path>,
}

#[repr(C)]
struct RawSample {
    id: usize,
    index: usize,
}

#[repr(C)]
struct RawResponse {
    id: usize,
    data: usize,
    size: usize,
    n_tokens: i64,
}

impl RawResponse {
    /// Four bytes for each token id, as the reference implementations hand them over: some of their evaluators and
    /// audit scripts read no other width.
    fn new(id: usize, tokens: &[i32]) -> Self {
        Self { id, data: tokens.as_ptr() as usize, size: size_of_val(tokens), n_tokens: tokens.len() as i64 }
    }
}

#[repr(C)]
struct RawSut {
    context: *mut c_void,
    sut_name: *const c_char,
    qsl_name: *const c_char,
    total_samples: u64,
    performance_samples: u64,
    issue: extern "C" fn(*mut c_void, *const RawSample, usize),
    flush: extern "C" fn(*mut c_void),
    load: extern "C" fn(*mut c_void, *const usize, usize),
    unload: extern "C" fn(*mut c_void, *const usize, usize),
}

type Respond = unsafe extern "C" fn(*mut RawResponse, usize);

/// The functions of the shim, as `shim.h` declares them.
struct Functions {
    version: unsafe extern "C" fn() -> *const c_char,
    revision: unsafe extern "C" fn() -> *const c_char,
    settings_new: unsafe extern "C" fn(c_int, c_int) -> *mut c_void,
    settings_free: unsafe extern "C" fn(*mut c_void),
    settings_read: unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char, *const c_char) -> c_int,
    settings_number: unsafe extern "C" fn(*const c_void, *const c_char, *mut f64) -> c_int,
    settings_seed: unsafe extern "C" fn(*const c_void, c_int) -> u64,
    test: unsafe extern "C" fn(*mut c_void, *const RawSut, *const c_char, *const c_char, *mut c_char, usize) -> c_int,
    first_tokens: Respond,
    completions: Respond,
}

/// LoadGen. It stays loaded: its threads and statics live as long as the process.
pub struct LoadedLibrary {
    call: Functions,
    /// LoadGen's own name of each ticket; 0 once it was completed. These names are addresses in LoadGen.
    open: Mutex<Vec<usize>>,
    has_settings: AtomicBool,
    has_reporter: AtomicBool,
}

impl LoadedLibrary {
    /// Once for each process.
    pub fn open(path: &Path) -> Result<Self, LoadgenError> {
        if IS_TAKEN.swap(true, Ordering::SeqCst) {
            return Err(LoadgenError::SecondTest);
        }
        let shown = || path.display().to_string();
        let load_error = |error: libloading::Error| LoadgenError::Load { path: shown(), why: error.to_string() };
        // SAFETY: loading runs the library's initializers, which are those of the C++ standard library and of LoadGen.
        let library = unsafe { libloading::Library::new(path) }.map_err(load_error)?;
        // SAFETY: the type is that of `rlg_abi` in every version of shim.h.
        let abi = unsafe { library.get::<unsafe extern "C" fn() -> c_int>(b"rlg_abi") }.map_err(load_error)?;
        // SAFETY: it has no arguments and changes no state.
        let version = unsafe { abi() };
        if version != ABI {
            return Err(LoadgenError::Abi { path: shown(), found: version });
        }
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the number above confirms that the library was built with the shim.h that these types follow.
                *unsafe { library.get($name) }.map_err(load_error)?
            };
        }
        let call = Functions {
            version: function!(b"rlg_version"),
            revision: function!(b"rlg_revision"),
            settings_new: function!(b"rlg_settings_new"),
            settings_free: function!(b"rlg_settings_free"),
            settings_read: function!(b"rlg_settings_read"),
            settings_number: function!(b"rlg_settings_number"),
            settings_seed: function!(b"rlg_settings_seed"),
            test: function!(b"rlg_test"),
            first_tokens: function!(b"rlg_first_tokens"),
            completions: function!(b"rlg_completions"),
        };
        std::mem::forget(library);
        Ok(Self {
            call,
            open: Mutex::default(),
            has_settings: AtomicBool::new(false),
            has_reporter: AtomicBool::new(false),
        })
    }

    pub fn version(&self) -> String {
        // SAFETY: a text with a zero at its end that lives as long as the library, which is never unloaded.
        unsafe { CStr::from_ptr((self.call.version)()) }.to_string_lossy().into_owned()
    }

    pub fn revision(&self) -> String {
        // SAFETY: as above.
        unsafe { CStr::from_ptr((self.call.revision)()) }.to_string_lossy().into_owned()
    }

    /// The settings of a test: the built-in mlperf.conf, then this user.conf. LoadGen ignores keys and models that it
    /// does not know: read the numbers back afterwards. Call it once: a second time LoadGen would read only the
    /// user.conf.
    pub fn settings(
        self: &Arc<Self>,
        scenario: MlperfScenario,
        is_accuracy: bool,
        user_conf: &Path,
        model: &str,
    ) -> Result<LoadgenSettings, LoadgenError> {
        if self.has_settings.swap(true, Ordering::SeqCst) {
            return Err(LoadgenError::SecondTest);
        }
        let (path, model, name) = (path_text(user_conf)?, text(model)?, text(scenario.loadgen())?);
        let number = match scenario {
            MlperfScenario::SingleStream => 0,
            MlperfScenario::Server | MlperfScenario::Interactive => 2,
            MlperfScenario::Offline => 3,
        };
        // SAFETY: both numbers are among those that shim.h names, so it is not null.
        let raw = unsafe { (self.call.settings_new)(number, if is_accuracy { 1 } else { 2 }) };
        let settings = LoadgenSettings { library: Arc::clone(self), raw };
        // SAFETY: not null, and this is the only owner; the texts live until the call has returned.
        let code = unsafe { (self.call.settings_read)(raw, path.as_ptr(), model.as_ptr(), name.as_ptr()) };
        if code == 0 { Ok(settings) } else { Err(LoadgenError::Config { path: user_conf.display().to_string(), code }) }
    }

    /// The only handle that reports samples. None when it is taken already.
    pub fn reporter(&self) -> Option<Reporter<'_>> {
        let is_free = !self.has_reporter.swap(true, Ordering::SeqCst);
        is_free.then_some(Reporter { library: self, responses: Vec::new(), one_thread: PhantomData })
    }
}

/// The settings of a test.
pub struct LoadgenSettings {
    library: Arc<LoadedLibrary>,
    raw: *mut c_void,
}

// SAFETY: nothing in LoadGen's settings belongs to a thread, and they have only one owner.
unsafe impl Send for LoadgenSettings {}

impl LoadgenSettings {
    /// Runs the test to its end on this thread.
    pub fn test<S: Sut>(self, test_description: &TestDescription<'_>, sut: &S) -> Result<(), LoadgenError> {
        let library = &*self.library;
        let (sut_name, qsl_name) = (text(test_description.sut)?, text(test_description.samples)?);
        let (out, audit) =
            (path_text(test_description.out)?, path_text(test_description.audit.unwrap_or(Path::new("")))?);
        let context = Context { library, sut };
        let raw = RawSut {
            context: (&raw const context).cast_mut().cast(),
            sut_name: sut_name.as_ptr(),
            qsl_name: qsl_name.as_ptr(),
            total_samples: test_description.total,
            performance_samples: test_description.performance,
            issue: issue::<S>,
            flush,
            load: load::<S>,
            unload: unload::<S>,
        };
        let mut error = [0u8; 512];
        // SAFETY: settings are not null and end after the call; texts, context and error live until it has returned,
        // and LoadGen keeps none of them: the shim's objects end with it. Callbacks match shim.h.
        let code = unsafe {
            let error = (error.as_mut_ptr().cast(), error.len());
            (library.call.test)(self.raw, &raw const raw, out.as_ptr(), audit.as_ptr(), error.0, error.1)
        };
        if code == 0 {
            return Ok(());
        }
        let message = CStr::from_bytes_until_nul(&error).map(|text| text.to_string_lossy().into_owned());
        Err(LoadgenError::Exception(message.unwrap_or_default()))
    }

    /// A number by LoadGen's name of it.
    pub fn number(&self, key: &'static str) -> Result<f64, LoadgenError> {
        let name = text(key)?;
        let mut value = 0.0;
        // SAFETY: not null; the name and the place for the value live until the call has returned.
        let code = unsafe { (self.library.call.settings_number)(self.raw, name.as_ptr(), &raw mut value) };
        if code == 0 { Ok(value) } else { Err(LoadgenError::Setting(key)) }
    }

    pub fn seeds(&self) -> Seeds {
        // SAFETY: not null, and every number is allowed.
        let seed = |which| unsafe { (self.library.call.settings_seed)(self.raw, which) };
        Seeds { qsl: seed(0), sample_index: seed(1), schedule: seed(2) }
    }
}

impl Drop for LoadgenSettings {
    fn drop(&mut self) {
        // SAFETY: it was made by `settings_new`, and this is its end.
        unsafe { (self.library.call.settings_free)(self.raw) };
    }
}

/// Reports samples to LoadGen. It stays on the thread that created it: LoadGen requires first tokens and completions on
/// one thread.
pub struct Reporter<'a> {
    library: &'a LoadedLibrary,
    responses: Vec<RawResponse>,
    one_thread: PhantomData<*const ()>,
}

impl Reporter<'_> {
    /// First tokens, by ticket. The token's bytes are what LoadGen logs.
    pub fn first_tokens(&mut self, firsts: &[(u64, &[i32])]) {
        self.respond(firsts, false);
    }

    /// Whole answers, by ticket: each sample finishes with this.
    pub fn completions(&mut self, answers: &[(u64, &[i32])]) {
        self.respond(answers, true);
    }

    fn respond(&mut self, answers: &[(u64, &[i32])], is_end: bool) {
        self.responses.clear();
        {
            let mut open = self.library.open.lock();
            for (ticket, data) in answers {
                // LoadGen cannot look up a sample that was never issued or has finished.
                let Some(id) = open.get_mut(*ticket as usize).filter(|id| **id != 0) else { continue };
                self.responses.push(RawResponse::new(*id, data));
                if is_end {
                    *id = 0;
                }
            }
        }
        let respond = if is_end { self.library.call.completions } else { self.library.call.first_tokens };
        if !self.responses.is_empty() {
            // SAFETY: every id came from LoadGen and was not completed before, so what it points to is alive: LoadGen
            // keeps it until then. Data live until the call has returned, and LoadGen copies what it keeps.
            unsafe { respond(self.responses.as_mut_ptr(), self.responses.len()) };
        }
    }
}

/// What callbacks get back.
struct Context<'a, S> {
    library: &'a LoadedLibrary,
    sut: &'a S,
}

/// A callback has no way to fail, and a panic must not cross C++.
fn guarded(work: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        std::process::abort();
    }
}

extern "C" fn issue<S: Sut>(context: *mut c_void, samples: *const RawSample, count: usize) {
    guarded(|| {
        // SAFETY: `test` made it, and it lives until the test has finished.
        let Context { library, sut } = unsafe { &*context.cast::<Context<'_, S>>() };
        // SAFETY: `count` samples of a vector that LoadGen holds during the call.
        let samples = unsafe { slice(samples, count) };
        let queries: Vec<Query> = {
            let mut open = library.open.lock();
            let first = open.len() as u64;
            open.extend(samples.iter().map(|sample| sample.id));
            let tickets = (first..).zip(samples);
            tickets.map(|(ticket, sample)| Query { ticket, sample: sample.index }).collect()
        };
        sut.issue(&queries);
    });
}

extern "C" fn flush(_context: *mut c_void) {}

extern "C" fn load<S: Sut>(context: *mut c_void, samples: *const usize, count: usize) {
    guarded(|| {
        // SAFETY: as in `issue`.
        let (context, samples) = unsafe { (&*context.cast::<Context<'_, S>>(), slice(samples, count)) };
        context.sut.load(samples);
    });
}

extern "C" fn unload<S: Sut>(context: *mut c_void, samples: *const usize, count: usize) {
    guarded(|| {
        // SAFETY: as in `issue`.
        let (context, samples) = unsafe { (&*context.cast::<Context<'_, S>>(), slice(samples, count)) };
        context.sut.unload(samples);
    });
}

/// An empty vector may have no address.
///
/// # Safety
/// `first` points to `count` elements, valid for as long as the caller uses them.
unsafe fn slice<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts(first, count) }
}

fn text(text: &str) -> Result<CString, LoadgenError> {
    CString::new(text).map_err(|_| LoadgenError::Zero(text.to_owned()))
}

fn path_text(path: &Path) -> Result<CString, LoadgenError> {
    let bytes: &OsStr = path.as_os_str();
    CString::new(bytes.as_bytes()).map_err(|_| LoadgenError::Zero(path.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loadgen_gets_four_bytes_for_each_token() {
        let response = RawResponse::new(7, &[5, 6, 7]);
        assert_eq!((response.size, response.n_tokens), (12, 3));
        let nothing = RawResponse::new(7, &[]);
        assert_eq!((nothing.size, nothing.n_tokens), (0, 0));
    }

    #[test]
    fn a_process_opens_loadgen_once() {
        let nowhere = Path::new("/no/such/libloadgen.so");
        let first = LoadedLibrary::open(nowhere).err().unwrap();
        assert!(matches!(first, LoadgenError::Load { .. }), "{first}");
        assert!(first.to_string().starts_with("/no/such/libloadgen.so cannot be loaded:"), "{first}");
        let second = LoadedLibrary::open(nowhere).err().unwrap();
        assert!(matches!(second, LoadgenError::SecondTest), "{second}");
    }
}
