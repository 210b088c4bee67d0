// SPDX-License-Identifier: Apache-2.0
// Rust on hg/c.h: classifies one digit, drawn as text below, with the model of samples/digits.
use std::ffi::{c_char, c_void, CStr, CString};
use std::{env, process, ptr};

const INK: &str = " .:-=+*#%@"; // from 0 to 1
const IMAGE: &str = "  :%@+    #*-@=  -@:.%-   *@@@:      #-      #:  :*.-%    :#@*  "; // 8 rows of 8

#[repr(C)]
struct Tensor {
    struct_size: u32,
    dtype: i32,
    data: *mut c_void,
    rank: i32,
    reserved: i32,
    shape: [i64; 12],
    strides: [i64; 12],
}

#[link(name = "hologram_c")]
extern "C" {
    fn hg_status_message(status: *const c_void) -> *const c_char;
    fn hg_status_free(status: *mut c_void);
    fn hg_tensor_view(tensor: *mut Tensor, size: usize, data: *mut c_void, dtype: i32, rank: i32,
                      shape: *const i64) -> *mut c_void;
    fn hg_model_load(path: *const c_char, options: *const c_void, model: *mut *mut c_void) -> *mut c_void;
    fn hg_model_free(model: *mut c_void);
    fn hg_session_create(model: *const c_void, options: *const c_void, session: *mut *mut c_void) -> *mut c_void;
    fn hg_session_free(session: *mut c_void);
    fn hg_session_set_input_at(session: *mut c_void, index: i32, tensor: *const Tensor) -> *mut c_void;
    fn hg_session_set_output_at(session: *mut c_void, index: i32, tensor: *const Tensor) -> *mut c_void;
    fn hg_session_run(session: *mut c_void, cancel: *const c_void) -> *mut c_void;
}

fn check(status: *mut c_void) -> Result<(), String> {
    if status.is_null() {
        return Ok(());
    }
    let message = unsafe { CStr::from_ptr(hg_status_message(status)) }.to_string_lossy().into_owned();
    unsafe { hg_status_free(status) };
    Err(message)
}

fn view(values: &mut [f32], shape: &[i64]) -> Result<Tensor, String> {
    let mut tensor: Tensor = unsafe { std::mem::zeroed() };
    let size = std::mem::size_of::<Tensor>();
    check(unsafe {
        hg_tensor_view(&mut tensor, size, values.as_mut_ptr().cast(), 0, shape.len() as i32, shape.as_ptr())
    })?;
    Ok(tensor)
}

fn read_digit(path: &str) -> Result<usize, String> {
    let (mut model, mut session) = (ptr::null_mut(), ptr::null_mut());
    let path = CString::new(path).map_err(|error| error.to_string())?;
    let mut pixels: Vec<f32> =
        IMAGE.chars().map(|c| INK.find(c).unwrap() as f32 / 9.0).collect();
    let mut scores = [0f32; 10];
    let (image, bound) = (view(&mut pixels, &[1, 1, 8, 8])?, view(&mut scores, &[1, 10])?);
    let result = (|| unsafe {
        check(hg_model_load(path.as_ptr(), ptr::null(), &mut model))?;
        check(hg_session_create(model, ptr::null(), &mut session))?;
        check(hg_session_set_input_at(session, 0, &image))?;
        check(hg_session_set_output_at(session, 0, &bound))?;
        check(hg_session_run(session, ptr::null()))
    })();
    unsafe { (hg_session_free(session), hg_model_free(model)) };
    result?;
    Ok((0..10).fold(0, |best, i| if scores[i] > scores[best] { i } else { best }))
}

fn main() {
    match read_digit(&env::args().nth(1).unwrap_or("digits.hgm".into())) {
        Ok(digit) => println!("The digit is a {digit}."),
        Err(message) => {
            eprintln!("{message}");
            process::exit(2);
        }
    }
}
